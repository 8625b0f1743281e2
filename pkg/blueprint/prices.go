// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package blueprint

import (
	"reflect"
	"strings"
)

// price is what a call of a function costs at most, in units of work: what it takes, and the memory of what it makes. It is known before
// the function is called. What has to be walked for it is paid from the budget.
type price func(b *Budget, args []reflect.Value) (float64, error)

// callCost is what each call costs apart from its price.
const callCost = 100

// prices of all functions that templates may call but for those that pay by themselves. A function without a price cannot be called.
var prices = priceList(map[string]price{
	// No longer than what is looked at without a loop.
	`hello now plural kindOf typeOf isAbs osIsAbs first mustFirst last mustLast
	 trunc substr trimPrefix trimSuffix hasPrefix hasSuffix`: texts(0.1),
	`default empty coalesce ternary all any list tuple get set unset hasKey dig exists`: elements(30),
	// What is no number is printed, and the text thrown away.
	`add add1 sub mul div mod max min biggest floor ceil round maxf minf int int64 float64 atoi`: printing(3),
	`slice mustSlice`: sliced,
	// In proportion to the texts.
	`abbrev abbrevboth lower upper swapcase title untitle initials nospace trim contains
	 b64enc b64dec b32enc b32dec base64decode base clean dir ext osBase osClean osDir osExt
	 adler32sum sha1sum sha256sum sha512sum fail splitn kindIs typeIs typeIsLike`: texts(3),
	`camelcase kebabcase snakecase regexQuoteMeta urlParse`: texts(10),
	`trimAll trimall`: trimmed,
	`date dateInZone date_in_zone htmlDate htmlDateInZone ago`: dated,
	`toDate mustToDate dateModify date_modify mustDateModify`:  dated,
	`must_date_modify duration durationRound unixEpoch`:        dated,
	`decryptAES`: texts(5),
	// Texts of any value.
	`toString toDecimal quote squote cat toStrings print println`: printing(4),
	`html js urlquery urlJoin`:                                    printing(8),
	printFunction:                                                 printing(1),
	`printf`:                                                      formatted,
	`toJson mustToJson toRawJson mustToRawJson`:                   marshalled,
	`toPrettyJson mustToPrettyJson`:                               marshalledPretty,
	`fromJson mustFromJson`:                                       unmarshalled,
	// Texts whose length is computed.
	`repeat`:          repeated,
	`indent nindent`:  indented,
	`replace`:         replacedText,
	`wrap wrapWith`:   wrapped,
	`join`:            joined,
	`split splitList`: splitText,
	// Lists and maps.
	`until untilStep seq`: counted,
	`append push mustAppend mustPush prepend mustPrepend initial mustInitial rest mustRest reverse mustReverse
	 omit pick pluck keys values`: copied(1),
	`compact mustCompact concat chunk mustChunk`: copied(3),
	`dict`:                              paired,
	`sortAlpha`:                         sorted,
	`deepEqual has mustHas`:             comparing,
	`uniq mustUniq without mustWithout`: comparingEach,
	`deepCopy mustDeepCopy merge mustMerge mergeOverwrite mustMergeOverwrite`: copiedDeep,
	`addf add1f subf mulf divf`: exact,
	`semver semverCompare`:      versions,
})

// priceList is the price by each name.
func priceList(byNames map[string]price) map[string]price {
	list := map[string]price{}
	for names, price := range byNames {
		for _, name := range strings.Fields(names) {
			list[name] = price
		}
	}
	return list
}

// texts cost unit for each of their bytes.
func texts(unit float64) price { return plain(1, unit) }

// elements of arguments cost unit each, and texts one for each byte.
func elements(unit float64) price { return plain(unit, 1) }

// plain is what arguments cost that are not looked into, each of them and each byte of texts.
func plain(element, unit float64) price {
	return func(_ *Budget, args []reflect.Value) (float64, error) {
		total := 0.0
		one := func(arg reflect.Value) {
			total += element
			if arg = inside(arg); arg.Kind() == reflect.String {
				total += unit * float64(arg.Len())
			}
		}
		for _, arg := range args {
			if arg.Kind() != reflect.Slice { // a list that a template gives stands in an interface
				one(arg)
				continue
			}
			for i := range arg.Len() {
				one(arg.Index(i))
			}
		}
		return total, nil
	}
}

// printing costs so often what it costs to print the arguments once.
func printing(times float64) price {
	return func(b *Budget, args []reflect.Value) (float64, error) {
		t, err := b.tally(args...)
		return times * t.printed(), err
	}
}

// dated is for layouts, which are read byte by byte.
func dated(_ *Budget, args []reflect.Value) (float64, error) {
	total := 300.0
	for _, arg := range args {
		if arg = inside(arg); arg.Kind() == reflect.String {
			total += 10 * float64(arg.Len())
		}
	}
	return total, nil
}

// trimmed looks for each character in a set.
func trimmed(_ *Budget, args []reflect.Value) (float64, error) {
	return length(args[1]) * (2 + length(args[0])), nil
}

// formatted is for printf: an argument may be printed by each verb, and each part of it with the width of the verb.
func formatted(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args[1:]...)
	if err != nil {
		return 0, err
	}
	format := args[0].String()
	verbs, widths, chosen := verbsOf(format)
	times := 1.0
	if chosen {
		times += verbs
	}
	return float64(len(format)) + 100*verbs + times*(2*t.printed()) + widths*(t.nodes+1), nil
}

// verbsOf a format: how many there are, the sum of their widths and precisions, and whether they choose their arguments.
func verbsOf(format string) (verbs, widths float64, chosen bool) {
	// fmt takes nothing wider than a million.
	const widest = 1e6
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		verbs++
		number := 0.0
		for i++; i < len(format) && strings.IndexByte("+-# 0123456789.*[]", format[i]) >= 0; i++ {
			switch c := format[i]; {
			case '0' <= c && c <= '9':
				number = min(number*10+float64(c-'0'), widest)
				continue
			case c == '[':
				chosen = true
			case c == '*':
				widths += widest
			}
			widths, number = widths+number, 0
		}
		widths += number
	}
	return verbs, widths, chosen
}

// marshalled is JSON: a byte of a text becomes six at most, and is copied some times.
func marshalled(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	return 60*t.nodes + 5*t.bytes, err
}

// marshalledPretty has each value on a line of its own.
func marshalledPretty(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args...)
	return 120*t.nodes + 10*t.bytes + 8*t.depths, err
}

// unmarshalled is of a text, in which each comma and bracket may stand for a value.
func unmarshalled(_ *Budget, args []reflect.Value) (float64, error) {
	text, values := args[0].String(), 1.0
	for i := range len(text) {
		switch text[i] {
		case '[', '{', ',', ':':
			values++
		}
	}
	return 4*float64(len(text)) + 80*values, nil
}

func repeated(_ *Budget, args []reflect.Value) (float64, error) {
	return max(float64(args[0].Int()), 0) * length(args[1]), nil
}

func indented(_ *Budget, args []reflect.Value) (float64, error) {
	spaces, text := max(float64(args[0].Int()), 0), args[1].String()
	return 3*float64(len(text)) + 2*spaces*float64(strings.Count(text, "\n")+1), nil
}

func replacedText(_ *Budget, args []reflect.Value) (float64, error) {
	text := args[2].String()
	return 3*float64(len(text)) + length(args[1])*float64(strings.Count(text, args[0].String())), nil
}

// wrapped is by lines: a long one follows a short one at least.
func wrapped(_ *Budget, args []reflect.Value) (float64, error) {
	width, text, separator := max(float64(args[0].Int()), 1), length(args[len(args)-1]), 1.0
	if len(args) == 3 {
		separator = max(length(args[1]), 1)
	}
	return 5*text + 2*(2*text/width+2)*(separator+10), nil
}

func joined(b *Budget, args []reflect.Value) (float64, error) {
	t, err := b.tally(args[1])
	return 2*t.printed() + length(args[0])*length(args[1]), err
}

func splitText(_ *Budget, args []reflect.Value) (float64, error) {
	separator, text := args[0].String(), args[1].String()
	return 2*float64(len(text)) + 60*float64(strings.Count(text, separator)+1), nil
}
