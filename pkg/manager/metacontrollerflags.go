// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// setting is a value of a flag of Millwright.
type setting struct{ flag, value string }

// translation is what a flag of Metacontroller means here.
type translation struct {
	name string
	// isBool: the flag needs no value.
	isBool bool
	// note is logged where the flag is used.
	note string
	// translate returns the flags of Millwright that mean the same, or an error that describes which values the flag must have.
	translate func(value string, given givenFlags) ([]setting, error)
}

// translations are all flags of Metacontroller 4.17 that are no flags here.
var translations = []translation{
	{name: "client-go-qps", translate: translateQPS},
	{name: "client-go-burst", translate: translateBurst},
	{name: "health-probe-bind-address", translate: translateHealth, note: "/metrics is served there too, unless --metrics-address is set"},
	{name: "leader-election", isBool: true, translate: renamed("leader-elect", nil)},
	{name: "leader-election-id", translate: renamed("leader-elect-lease-name", validation.IsDNS1123Subdomain)},
	{name: "leader-election-namespace", translate: renamed("leader-elect-lease-namespace", emptyOr(validation.IsDNS1123Label))},
	{name: "leader-election-resource-lock", translate: only("the lock is always a Lease", "leases")},
	{name: "pprof-address", translate: only("profiles are not served", "0", "")},
	{name: "zap-log-level", translate: translateLevel},
	{name: "zap-encoder", translate: translateEncoder},
	{name: "zap-devel", isBool: true, translate: translateDevel},
	{name: "zap-stacktrace-level", translate: accepted(anyText), note: "only a panic is logged with its stack"},
	{name: "zap-time-encoding", translate: accepted(anyText), note: "--logging-format=json has milliseconds since 1970, and text has the local time"},
	{name: "discovery-interval", translate: accepted(duration), note: "changes of the APIs that the API server serves are detected"},
	{name: "cache-flush-interval", translate: accepted(duration), note: "caches need no flush; resyncPeriodSeconds of a declaration syncs its parents in intervals"},
	{name: "events-qps", translate: accepted(number), note: "events are aggregated, and limited for each object"},
	{name: "events-burst", translate: accepted(number), note: "events are aggregated, and limited for each object"},
}

// accepted is for a flag without which the same is done here. Its value must be valid nevertheless.
func accepted(check func(string) error) func(string, givenFlags) ([]setting, error) {
	return func(value string, _ givenFlags) ([]setting, error) { return nil, check(value) }
}

func anyText(string) error { return nil }

func duration(value string) error {
	if _, err := time.ParseDuration(value); err != nil {
		return errors.New("must be a duration, such as 20s")
	}
	return nil
}

func number(value string) error {
	if _, err := strconv.ParseFloat(value, 64); err != nil {
		return errors.New("must be a number")
	}
	return nil
}

// only is for a flag whose values, but these, have no meaning here.
func only(why string, values ...string) func(string, givenFlags) ([]setting, error) {
	return func(value string, _ givenFlags) ([]setting, error) {
		for _, possible := range values {
			if value == possible {
				return nil, nil
			}
		}
		return nil, fmt.Errorf("must be %s: %s", values[0], why)
	}
}

// renamed is for a flag that has another name here. problems returns what is wrong with a value.
func renamed(to string, problems func(string) []string) func(string, givenFlags) ([]setting, error) {
	return func(value string, _ givenFlags) ([]setting, error) {
		if problems != nil {
			if found := problems(value); len(found) > 0 {
				return nil, fmt.Errorf("must be a valid --%s: %s", to, found[0])
			}
		}
		return []setting{{to, value}}, nil
	}
}

func emptyOr(problems func(string) []string) func(string) []string {
	return func(value string) []string {
		if value == "" {
			return nil
		}
		return problems(value)
	}
}

// translateQPS refuses what client-go takes for its default, or for no limit.
func translateQPS(value string, _ givenFlags) ([]setting, error) {
	if number, err := strconv.ParseFloat(value, 32); err != nil || number <= 0 {
		return nil, errors.New("must be a positive number: without this flag, there is no limit except the API server's own")
	}
	return []setting{{"kube-api-qps", value}}, nil
}

func translateBurst(value string, given givenFlags) ([]setting, error) {
	if number, err := strconv.Atoi(value); err != nil || number <= 0 {
		return nil, errors.New("must be a positive whole number")
	}
	if !given.has("client-go-qps") && !given.has("kube-api-qps") {
		return nil, errors.New("must be set together with --client-go-qps: without it there is no limit here that a burst could exceed; remove it")
	}
	return []setting{{"kube-api-burst", value}}, nil
}

func translateHealth(value string, _ givenFlags) ([]setting, error) {
	if !isAddress(value) {
		return nil, errors.New(mustBeAddress)
	}
	return []setting{{"serving-address", value}}, nil
}

func translateLevel(value string, _ givenFlags) ([]setting, error) {
	switch level, err := strconv.ParseUint(value, 10, 7); {
	case err == nil:
		return []setting{{"v", strconv.FormatUint(level, 10)}}, nil
	case strings.EqualFold(value, "debug"):
		return []setting{{"v", "1"}}, nil
	case strings.EqualFold(value, "info"):
		return []setting{{"v", "0"}}, nil
	default:
		return nil, errors.New("must be debug, info or a number, which is that of -v: what info logs is always logged")
	}
}

func translateEncoder(value string, _ givenFlags) ([]setting, error) {
	format, found := map[string]string{"json": "json", "console": "text"}[strings.ToLower(value)]
	if !found {
		return nil, errors.New("must be json, or console, which is --logging-format=text")
	}
	return []setting{{"logging-format", format}}, nil
}

// translateDevel translates the defaults that --zap-devel sets, unless they are given: the format and the level.
func translateDevel(value string, given givenFlags) (settings []setting, err error) {
	development, format := value == "true", "json"
	if development {
		format = "text"
	}
	if !given.has("zap-encoder") && !given.has("logging-format") {
		settings = append(settings, setting{"logging-format", format})
	}
	if development && !given.has("zap-log-level") && !given.has("v") {
		settings = append(settings, setting{"v", "1"})
	}
	return settings, nil
}
