// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"errors"
	"fmt"
	"maps"
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
	join split splitList splitn
	all any coalesce compact default empty mustCompact ternary
	fromJson mustFromJson mustToJson mustToPrettyJson mustToRawJson toJson toPrettyJson toRawJson
	deepCopy deepEqual kindIs kindOf mustDeepCopy typeIs typeIsLike typeOf
	base clean dir ext isAbs osBase osClean osDir osExt osIsAbs
	b32dec b32enc b64dec b64enc
	dict dig get hasKey omit pick pluck set unset
	append chunk concat first has initial last list mustAppend mustChunk mustFirst mustHas mustInitial mustLast mustPrepend mustPush
	mustRest mustReverse mustSlice mustUniq mustWithout prepend push rest reverse slice tuple uniq without
	decryptAES fail regexQuoteMeta urlJoin urlParse
`)

// Why a function of sprig is refused.
const (
	readsMachine = "reads the operator's machine"
	random       = "gives another result each time, so that a run could not be resumed"
	costly       = "takes time without bounds"
)

// denied are the functions of sprig that templates may not call. The error of a template that does explains why.
var denied = map[string]string{
	"env": readsMachine, "expandenv": readsMachine, "getHostByName": readsMachine,
	"randAlpha": random, "randAlphaNum": random, "randAscii": random, "randBytes": random, "randInt": random, "randNumeric": random,
	"shuffle": random, "uuidv4": random, "encryptAES": random, "htpasswd": random, "bcrypt": random,
	"genPrivateKey": random, "genCA": random, "genCAWithKey": random, "genSelfSignedCert": random, "genSelfSignedCertWithKey": random,
	"genSignedCert": random, "genSignedCertWithKey": random, "buildCustomCert": costly, "derivePassword": costly,
}

// replaced are the functions of sprig that have another implementation here: sprig's read the machine's clock and time zone, or
// give maps in any order, or sort in place, or do not end, or cannot be priced before they are called.
func replaced(now time.Time) template.FuncMap {
	clock := clock{now}
	functions := template.FuncMap{
		"now": func() time.Time { return now },
		"ago": clock.ago, "durationRound": clock.durationRound,
		"date": clock.date, "dateInZone": clock.dateInZone, "date_in_zone": clock.dateInZone,
		"htmlDate": clock.htmlDate, "htmlDateInZone": clock.htmlDateInZone,
		"toDate": clock.toDate, "mustToDate": clock.mustToDate,
		"keys": keys, "values": values, "sortAlpha": sortAlpha,
		"until": until, "untilStep": untilStep, "seq": seq,
		"semver": readVersion, "semverCompare": compareVersion,
	}
	for _, name := range []string{"merge", "mustMerge", "mergeOverwrite", "mustMergeOverwrite"} {
		functions[name] = merging(theirs[name])
	}
	return functions
}

// theirs are all functions of sprig.
var theirs = sprig.GenericFuncMap()

// functionsOf returns all functions that templates may call. What goes through them is paid from the budget.
func functionsOf(now time.Time, b *Budget) template.FuncMap {
	functions := template.FuncMap{}
	for _, name := range allowed {
		functions[name] = theirs[name]
	}
	maps.Copy(functions, replaced(now))
	functions = charged(functions, b)
	maps.Copy(functions, regexes(b))
	for name, why := range denied {
		functions[name] = func(...any) (string, error) { return "", errors.New("a Blueprint cannot call it: it " + why) }
	}
	return functions
}

// charged are these functions, and those that every template has, all paid from the budget.
func charged(functions template.FuncMap, b *Budget) template.FuncMap {
	all := template.FuncMap{
		// The engine's own ones that walk their arguments.
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
		printFunction: func(value any) any { return value },
	}
	maps.Copy(all, functions)
	all = priced(all, b)
	maps.Copy(all, comparisons(b))
	maps.Copy(all, hooks(b))
	return all
}
