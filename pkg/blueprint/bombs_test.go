// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import "strings"

// nested is 1 within n pairs.
func nested(open, shut string, n int) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(shut, n)
}

// loop does something for as long as the budget lasts.
func loop(does string) string { return `{{ range 1000000000000 }}` + does + `{{ end }}` }

// long makes $x a text of 100000 bytes, and many $l a list of 10000 numbers.
const (
	long = `{{ $x := repeat 100000 "x" }}`
	many = `{{ $l := until 10000 }}`
)

// bombs are templates that would take all of a CPU or of the memory for long.
var bombs = map[string]struct {
	source string
	limit  error
}{
	"a loop over a huge number":         {loop(""), errWork},
	"nested loops":                      {`{{ range 100000 }}{{ range 100000 }}{{ end }}{{ end }}`, errWork},
	"a loop that only continues":        {loop(`{{ continue }}`), errWork},
	"a loop inside an else":             {`{{ if false }}{{ else }}{{ with 1 }}` + loop("") + `{{ end }}{{ end }}`, errWork},
	"a loop with a long body":           {loop(strings.Repeat(`{{ $x := 1 }}`, 5000)), errWork},
	"a loop that assigns":               {`{{ $x := 1 }}` + loop(`{{ $x = 1 }}`), errWork},
	"a loop that compares":              {long + `{{ $y := printf "%s" $x }}` + loop(`{{ $z := eq $x $y }}`), errWork},
	"a loop that compares in order":     {long + `{{ $y := printf "%s" $x }}` + loop(`{{ $z := ge $x $y }}`), errWork},
	"a loop that compares with many":    {loop(`{{ $z := eq 1 ` + strings.Repeat("2 ", 1000) + `}}`), errWork},
	"a loop that indexes":               {long + `{{ $m := dict $x 1 }}` + loop(`{{ $z := index $m $x }}`), errWork},
	"a loop that formats a time":        {long + `{{ $t := now }}` + loop(`{{ $z := $t.Format $x }}`), errWork},
	"a loop that formats a time, piped": {long + `{{ $t := now }}` + loop(`{{ $z := $x | $t.Format }}`), errWork},
	"a loop that asks a time":           {`{{ $t := now }}` + loop(`{{ $z := $t.AddDate 1 1 1 }}`), errWork},
	"a loop that asks a version":        {`{{ $v := semver "1.2.3" }}` + loop(`{{ $z := $v.String }}`), errWork},
	"a loop that reads versions":        {loop(`{{ $z := semverCompare "^1.2.3 || >= 2.0.0, < 3.0.0" "1.2.3" }}`), errWork},
	"a loop over a map that breaks":     {`{{ $m := dict }}{{ range until 5000 }}{{ $_ := set $m (print .) 1 }}{{ end }}` + loop(`{{ range $m }}{{ break }}{{ end }}`), errWork},
	"a loop that prints a struct":       {loop(`{{ $z := print $.Secrets }}`), errWork},
	"a loop that marshals a struct":     {loop(`{{ $z := toJson $ }}`), errWork},
	"a loop of short calls":             {loop(`{{ $z := upper "x" }}`), errWork},
	"a loop of fields":                  {loop(`{{ $z := $.Secrets.creds.ObjectMeta.Name }}`), errWork},
	"a loop of templates":               {`{{ define "x" }}{{ end }}` + loop(`{{ template "x" }}`), errWork},
	"a template that calls itself":      {`{{ define "x" }}{{ template "x" . }}{{ end }}{{ template "x" . }}`, errNesting},
	"templates that call twice": {`{{ define "a" }}{{ template "b" . }}{{ template "b" . }}{{ end }}{{ define "b" }}{{ template "c" . }}{{ template "c" . }}{{ end }}` +
		`{{ define "c" }}{{ range 1000 }}{{ template "d" . }}{{ end }}{{ end }}{{ define "d" }}{{ range 1000 }}{{ end }}{{ end }}{{ range 1000 }}{{ template "a" . }}{{ end }}`, errWork},
	"blocks without an end":             {nested("{{if 1}}", "{{end}}", 8000), errNesting},
	"parentheses":                       {`{{ ` + nested("(", ")", 5000) + ` }}`, errNesting},
	"parentheses with fields":           {`{{ with 1 }}{{ ` + strings.Repeat("(", 9000) + ".a" + strings.Repeat(").a", 9000) + ` }}{{ end }}`, errNesting},
	"parentheses with indexes":          {`{{ ` + strings.Repeat("(index ", 9000) + ".a" + strings.Repeat(" 1)", 9000) + ` }}`, errNesting},
	"parentheses without an end":        {`{{ ` + nested("(", ")", 60000) + ` }}`, nil},
	"a source that is too long":         {`{{ 1 }}` + strings.Repeat("x", maxSource), nil},
	"a source of many actions":          {strings.Repeat(`{{1}}`, maxSource/5), nil},
	"a source of many templates":        {strings.Repeat(`{{define "a"}}{{end}}`, maxSource/21), nil},
	"a huge repetition":                 {`{{ repeat 1000000000 "x" }}`, errWork},
	"repeated repetitions":              {`{{ repeat 4000 (repeat 4000 "xx") }}`, errWork},
	"a loop of repetitions":             {loop(`{{ $x := repeat 1000000 "x" }}`), errWork},
	"repetitions that are kept":         {`{{ $d := dict }}{{ range $i := until 100000 }}{{ $_ := set $d (print $i) (repeat 100000 "x") }}{{ end }}`, errWork},
	"a huge until":                      {`{{ until 1000000000 }}`, errWork},
	"untils that are kept":              {`{{ $d := dict }}{{ range $i := until 100000 }}{{ $_ := set $d (print $i) (until 10000) }}{{ end }}`, errWork},
	"a huge untilStep":                  {`{{ untilStep 0 1000000000 1 }}`, errWork},
	"a huge untilStep downwards":        {`{{ untilStep 0 -1000000000 -1 }}`, errWork},
	"an untilStep beyond all numbers":   {`{{ untilStep 9223372036854775000 9223372036854775807 9223372036854775 }}`, errWork},
	"a huge seq":                        {`{{ seq 1 1000000000 }}`, errWork},
	"a huge width":                      {`{{ printf "` + strings.Repeat("%999999d", 100) + `" 1 }}`, errWork},
	"a huge width as an argument":       {`{{ printf "` + strings.Repeat("%*d", 100) + `" 999999 1 }}`, errWork},
	"a huge precision":                  {`{{ printf "` + strings.Repeat("%.999999f", 100) + `" 1.0 }}`, errWork},
	"a width of each element":           {many + `{{ printf "%1000000d" $l }}`, errWork},
	"an argument that is printed often": {long + `{{ printf "` + strings.Repeat("%[1]s", 1000) + `" $x }}`, errWork},
	"a huge indentation":                {`{{ indent 1000000000 "x" }}`, errWork},
	"an indentation of many lines":      {`{{ $x := repeat 10000 "\n" }}{{ nindent 10000 $x }}`, errWork},
	"a replacement that grows":          {long + `{{ replace "x" $x $x }}`, errWork},
	"a replacement of nothing":          {long + `{{ replace "" $x $x }}`, errWork},
	"a separator that grows":            {long + `{{ join $x (until 1000) }}`, errWork},
	"a wrapping that grows":             {long + `{{ wrapWith 1 $x $x }}`, errWork},
	"a trimming of many characters":     {`{{ $x := repeat 20000 "é" }}` + loop(`{{ $z := trimAll $x $x }}`), errWork},
	"a text that doubles":               {`{{ $x := "x" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}`, errWork},
	"a text that is cut":                {long + loop(`{{ $z := splitList "" $x }}`), errWork},
	"a text that is split":              {long + loop(`{{ $z := split "" $x }}`), errWork},
	"a text that is quoted":             {long + loop(`{{ $z := quote $x }}`), errWork},
	"a text that is hashed":             {long + loop(`{{ $z := sha512sum $x }}`), errWork},
	"a text that is cased":              {`{{ $x := repeat 30000 "aB " }}` + loop(`{{ $z := snakecase $x }}`), errWork},
	"a text that is pascal-cased":       {`{{ $x := repeat 30000 "a_" }}` + loop(`{{ $z := camelcase $x }}`), errWork},
	"a text that is a number":           {`{{ $x := repeat 100000 "9" }}` + loop(`{{ $z := int64 $x }}`), errWork},
	"a text that is parsed":             {`{{ $x := repeat 100000 "%41" }}` + loop(`{{ $z := urlParse $x }}`), errWork},
	"a list that doubles":               {`{{ $x := list 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ $x }}`, errWork},
	"a list that grows":                 {`{{ $x := list 1 }}{{ $d := dict }}{{ range $i := until 100000 }}{{ $x = append $x 1 }}{{ $_ := set $d (print $i) $x }}{{ end }}`, errWork},
	"a list that is concatenated":       {`{{ $x := list 1 }}{{ range 100 }}{{ $x = concat $x $x }}{{ end }}`, errWork},
	"a list that is cut in pieces":      {many + loop(`{{ $z := chunk 1 $l }}`), errWork},
	"a list that is printed":            {many + loop(`{{ $z := print $l }}`), errWork},
	"a list that is reversed":           {many + loop(`{{ $z := reverse $l }}`), errWork},
	"a list that is searched":           {many + loop(`{{ $z := has -1 $l }}`), errWork},
	"a list that is sorted":             {many + loop(`{{ $z := sortAlpha $l }}`), errWork},
	"a list that is joined":             {many + loop(`{{ $z := join "," $l }}`), errWork},
	"a list that is compared":           {many + `{{ $k := until 10000 }}` + loop(`{{ $z := deepEqual $l $k }}`), errWork},
	"a list that is copied":             {many + loop(`{{ $z := deepCopy $l }}`), errWork},
	"a comparison of each with each":    {`{{ uniq (until 100000) }}`, errWork},
	"a list without all of another":     {`{{ $l := until 10000 }}{{ $z := without $l ` + strings.Repeat("-1 ", 10000) + `}}`, errWork},
	"a map that is merged":              {`{{ $m := dict }}{{ range until 3000 }}{{ $_ := set $m (print .) (dict "a" 1) }}{{ end }}` + loop(`{{ $z := merge (dict) $m }}`), errWork},
	"a map that is copied":              {`{{ $m := dict }}{{ range until 3000 }}{{ $_ := set $m (print .) (dict "a" 1) }}{{ end }}` + loop(`{{ $z := deepCopy $m }}`), errWork},
	"a map of which is picked":          {`{{ $m := dict }}{{ range until 3000 }}{{ $_ := set $m (print .) 1 }}{{ end }}` + loop(`{{ $z := omit $m "x" }}`), errWork},
	"a map that is marshalled":          {`{{ $m := dict }}{{ range until 3000 }}{{ $_ := set $m (print .) (dict "a" 1) }}{{ end }}` + loop(`{{ $z := toJson $m }}`), errWork},
	"pretty JSON of nested lists": {`{{ $x := list 1 1 1 1 }}{{ range 45 }}{{ $x = list $x }}{{ end }}{{ $y := list }}{{ range 2000 }}{{ $y = append $y $x }}{{ end }}` +
		loop(`{{ $z := toPrettyJson $y }}`), errWork},
	"pretty JSON of a list that doubles":    {`{{ $x := list 1 }}{{ range 40 }}{{ $x = list $x $x }}{{ end }}{{ toPrettyJson $x }}`, errWork},
	"JSON of signs":                         {`{{ $x := repeat 100000 "<" }}` + loop(`{{ $z := toJson $x }}`), errWork},
	"JSON of many lists":                    {`{{ $x := print "[" (repeat 30000 "[],") "[]]" }}` + loop(`{{ $z := fromJson $x }}`), errWork},
	"JSON of many maps":                     {`{{ $x := print "[" (repeat 30000 "{},") "{}]" }}` + loop(`{{ $z := fromJson $x }}`), errWork},
	"JSON without an end":                   {`{{ fromJson "` + nested("[", "]", 9000) + `" }}`, errDepth},
	"a map that contains itself":            {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ $x }}`, errDepth},
	"a map that contains itself twice":      {`{{ $x := dict }}{{ $_ := set $x "x" (list $x $x) }}{{ $x }}`, errDepth},
	"a number that contains itself":         {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ int $x }}`, errDepth},
	"a decimal number that contains itself": {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ addf 1 $x }}`, errDepth},
	"a limit that contains itself":          {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ slice (list 1) $x }}`, errDepth},
	"a key that contains itself":            {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ dict $x 1 }}`, errDepth},
	"a comparison that contains itself":     {`{{ $x := dict }}{{ $_ := set $x "x" $x }}{{ eq $x (list 1) }}`, nil},
	"a loop over what contains itself":      {`{{ $_ := set .Phases.dump.Output "x" .Phases.dump.Output }}{{ range .Phases.dump }}{{ end }}`, nil},
	"a merge that contains itself":          {`{{ $x := dict }}{{ $y := merge $x (dict "x" $x) }}{{ $y }}`, nil},
	"a merge that meets itself":             {`{{ $x := dict }}{{ $y := merge $x (dict "x" $x) (dict "x" $x) }}{{ $y }}`, nil},
	"a merge that meets itself by two names": {`{{ $m := dict }}{{ $x := dict "p" $m "q" $m }}` +
		`{{ $y := mustMergeOverwrite $x (dict "p" (dict "a" $x) "q" (dict "a" $x)) }}{{ $y }}`, nil},
	"an object that contains the root":  {`{{ $x := set .Phases.dump.Output "x" .Phases }}{{ $x }}`, errDepth},
	"output without an end":             {long + `{{ range 100 }}{{ $x }}{{ end }}`, errOutput},
	"output of text, without functions": {`{{ range 10000 }}` + strings.Repeat("x", 1000) + `{{ end }}`, errOutput},
	"an html text without an end":       {`{{ $x := repeat 100000 "<" }}{{ range 1000 }}{{ $x = html $x }}{{ end }}`, errWork},
	"a decimal number that grows":       {`{{ range 100 }}{{ $z := mulf 1e-300 ` + strings.Repeat("1.7e-300 ", 5000) + `}}{{ end }}`, errWork},
	"a decimal number that is exact":    {loop(`{{ $z := mulf 1e-300 ` + strings.Repeat("1.7e-300 ", 100) + `}}`), errWork},
	"a decimal number that is divided":  {loop(`{{ $z := divf 1e-300 ` + strings.Repeat("1.7e-300 ", 10) + `}}`), errWork},
	"a loop of decimal numbers":         {loop(`{{ $z := addf 1.5 2.5 }}`), errWork},

	"a regular expression with many steps":           {`{{ regexMatch "(a?b?c?d?e?f?g?h?i?j?k?l?m?n?o?p?q?r?s?t?u?v?w?x?y?z?){1000}" "aaaa" }}`, errPattern},
	"a regular expression of repetitions":            {`{{ regexMatch "((a{0,30}){0,30}){0,1}" (repeat 100000 "a") }}`, errWork},
	"a regular expression of many threads":           {loop(`{{ $z := regexMatch "(a?){500}a{500}b" (repeat 1000 "a") }}`), errWork},
	"many regular expressions":                       {loop(`{{ range $i := until 1000000 }}{{ $z := regexMatch (printf "(a?%d){500}" $i) "a" }}{{ end }}`), errWork},
	"a regular expression of classes":                {`{{ regexMatch (repeat 800 "[\\pL]") "a" }}`, errWork},
	"a regular expression of classes, folded":        {`{{ regexMatch (print "(?i)" (repeat 500 "\\pL")) "a" }}`, errWork},
	"a regular expression of ranges, folded":         {`{{ regexMatch (print "(?i)" (repeat 200 "[a-\\x{1e942}]")) "a" }}`, errWork},
	"a regular expression that grows":                {long + `{{ regexReplaceAll "x" $x $x }}`, errWork},
	"a regular expression that grows by groups":      {long + `{{ regexReplaceAll "(x+)" $x (repeat 1000 "$1") }}`, errWork},
	"a regular expression that looks ahead":          {`{{ regexFindAll "a.*b|a" (repeat 20000 "a") -1 }}`, errWork},
	"a regular expression that looks ahead and back": {`{{ regexReplaceAll "\\Ba.*b|a" (repeat 20000 "a") "x" }}`, errWork},
	"a regular expression that finds nothing":        {`{{ regexSplit "" (repeat 200000 "a") -1 }}`, nil},
	"a regular expression that is too long":          {`{{ regexMatch (repeat 5000 "a") "a" }}`, errPattern},
}
