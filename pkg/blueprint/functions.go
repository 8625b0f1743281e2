// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/Masterminds/sprig/v3"
)

// allowed are the functions of sprig that templates may call: each gives the same result for the same arguments, and reads nothing
// else.
var allowed = strings.Fields(`
	hello
	dateModify date_modify duration mustDateModify must_date_modify unixEpoch
	abbrev abbrevboth camelcase cat contains hasPrefix hasSuffix indent initials kebabcase lower nindent nospace plural quote repeat
	replace snakecase squote substr swapcase title toString toStrings trim trimAll trimPrefix trimSuffix trimall trunc untitle upper
	wrap wrapWith
	adler32sum sha1sum sha256sum sha512sum
	add add1 add1f addf atoi biggest ceil div divf float64 floor int int64 max maxf min minf mod mul mulf round sub subf toDecimal
	seq until untilStep
	join split splitList splitn
	all any coalesce compact default empty mustCompact ternary
	fromJson mustFromJson mustToJson mustToPrettyJson mustToRawJson toJson toPrettyJson toRawJson
	deepCopy deepEqual kindIs kindOf mustDeepCopy typeIs typeIsLike typeOf
	base clean dir ext isAbs osBase osClean osDir osExt osIsAbs
	b32dec b32enc b64dec b64enc
	dict dig get hasKey merge mergeOverwrite mustMerge mustMergeOverwrite omit pick pluck set unset
	append chunk concat first has initial last list mustAppend mustChunk mustFirst mustHas mustInitial mustLast mustPrepend mustPush
	mustRest mustReverse mustSlice mustUniq mustWithout prepend push rest reverse slice tuple uniq without
	decryptAES semver semverCompare fail
	mustRegexFind mustRegexFindAll mustRegexMatch mustRegexReplaceAll mustRegexReplaceAllLiteral mustRegexSplit
	regexFind regexFindAll regexMatch regexQuoteMeta regexReplaceAll regexReplaceAllLiteral regexSplit
	urlJoin urlParse
`)

// Why a function of sprig is refused.
const (
	readsMachine = "reads the operator's machine"
	random       = "gives another result each time, so that a run could not be resumed"
	costly       = "takes time without bounds"
)

// denied are the functions of sprig that templates may not call. A template that does is told why.
var denied = map[string]string{
	"env": readsMachine, "expandenv": readsMachine, "getHostByName": readsMachine,
	"randAlpha": random, "randAlphaNum": random, "randAscii": random, "randBytes": random, "randInt": random, "randNumeric": random,
	"shuffle": random, "uuidv4": random, "encryptAES": random, "htpasswd": random, "bcrypt": random,
	"genPrivateKey": random, "genCA": random, "genCAWithKey": random, "genSelfSignedCert": random, "genSelfSignedCertWithKey": random,
	"genSignedCert": random, "genSignedCertWithKey": random, "buildCustomCert": costly, "derivePassword": costly,
}

// replaced are the functions of sprig that have another implementation here: sprig's read the machine's clock and time zone, or
// give maps in any order, or sort in place.
func replaced(now time.Time) template.FuncMap {
	clock := clock{now}
	return template.FuncMap{
		"now": func() time.Time { return now },
		"ago": clock.ago, "durationRound": clock.durationRound,
		"date": clock.date, "dateInZone": clock.dateInZone, "date_in_zone": clock.dateInZone,
		"htmlDate": clock.htmlDate, "htmlDateInZone": clock.htmlDateInZone,
		"toDate": clock.toDate, "mustToDate": clock.mustToDate,
		"keys": keys, "values": values, "sortAlpha": sortAlpha,
	}
}

// functionsOf returns all functions that templates may call. What goes through them is paid from the budget.
func functionsOf(now time.Time, b *budget) template.FuncMap {
	functions := template.FuncMap{}
	theirs := sprig.GenericFuncMap()
	for _, name := range allowed {
		functions[name] = theirs[name]
	}
	maps.Copy(functions, replaced(now))
	functions = charged(functions, b)
	for name, why := range denied {
		functions[name] = func(...any) (string, error) { return "", errors.New("a Blueprint cannot call it: it " + why) }
	}
	return functions
}

// charged are these functions, and those that every template has, all paid from the budget.
func charged(functions template.FuncMap, b *budget) template.FuncMap {
	all := template.FuncMap{
		// The engine's own ones that walk their arguments.
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
		printFunction: func(value any) any { return value },
	}
	maps.Copy(all, functions)
	all = wrap(all, b)
	all[stepFunction] = func() (string, error) { return "", b.pay(stepCost) }
	all[enterFunction] = func() (string, error) { return "", b.pay(callCost) }
	return all
}

// keys are the keys of all maps, each map's in order.
func keys(of ...map[string]any) []string {
	found := []string{}
	for _, m := range of {
		found = append(found, slices.Sorted(maps.Keys(m))...)
	}
	return found
}

// values are the map's values in the order of its keys.
func values(of map[string]any) []any {
	found := []any{}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		found = append(found, of[key])
	}
	return found
}

// sortAlpha gives a list of texts in order, and leaves the given one as it is.
func sortAlpha(list any) []string {
	return slices.Sorted(slices.Values(toStrings(list)))
}

// toStrings makes texts of what a list holds.
var toStrings = sprig.GenericFuncMap()["toStrings"].(func(any) []string)
