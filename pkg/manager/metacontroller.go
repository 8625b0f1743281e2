// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"net"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/flagerrors"
)

// metacontrollerMetricsPort is the port of Metacontroller's --metrics-address, by default and in its manifests.
const metacontrollerMetricsPort = "9999"

// otherMeanings returns errors for flags that Metacontroller has too, if their values look like those for Metacontroller: they have another
// meaning here, which users would not notice.
func (o *Options) otherMeanings() (errs []error) {
	if _, port, err := net.SplitHostPort(o.SecureMetrics.Address); err == nil && port == metacontrollerMetricsPort {
		errs = append(errs, invalid("metrics-address", o.SecureMetrics.Address,
			"must not have Metacontroller's port, which serves /metrics over HTTP to all clients there; here --metrics-address serves them over HTTPS to authorized clients: "+
				"use --serving-address=%s for HTTP, or another port for HTTPS", o.SecureMetrics.Address))
	}
	selected, err := selectControllers(o.table, o.Controllers)
	others := slices.ContainsFunc(selected, func(d Descriptor) bool { return d.Deployment != engineDeployment })
	if err == nil && !others && o.Workers != defaultWorkers {
		errs = append(errs, invalid("workers", o.Workers,
			"must not be set if only controllers with hooks run: in Metacontroller these are the workers of each CompositeController; use --hook-workers, which all of them share"))
	}
	return errs
}

// sharedFlags are those of Metacontroller 4.17 that have the same name here. Values with another meaning are refused by otherMeanings.
var sharedFlags = []string{"kubeconfig", "workers", "metrics-address", "target-label-selector", "apply-strategy", "apply-strategy-ssa-field-manager"}

// IsMetacontrollerFlag reports whether Metacontroller 4.17 has a flag of this name.
func IsMetacontrollerFlag(name string) bool {
	return slices.Contains(sharedFlags, name) || slices.ContainsFunc(translations, func(t translation) bool { return t.name == name })
}

// MetacontrollerFlags are the flags of Metacontroller 4.17 that are no flags here. The arguments of its Deployments are accepted where they have
// a meaning here, and refused with advice where they have none, so that none is ignored without notice.
type MetacontrollerFlags struct {
	flags *pflag.FlagSet
}

// NewMetacontrollerFlags returns them with nothing set.
func NewMetacontrollerFlags() *MetacontrollerFlags {
	m := &MetacontrollerFlags{flags: pflag.NewFlagSet("metacontroller", pflag.ContinueOnError)}
	for _, t := range translations {
		if t.isBool {
			m.flags.Bool(t.name, false, "")
		} else {
			m.flags.String(t.name, "", "")
		}
		m.flags.Lookup(t.name).Hidden = true
	}
	return m
}

// Flags returns the flags, which are hidden in the help.
func (m *MetacontrollerFlags) Flags() *pflag.FlagSet { return m.flags }

// Translated is a flag of Metacontroller that was given.
type Translated struct {
	// Flag is how it is written.
	Flag string
	// To are the flags that were set for it, empty if Millwright always does what it asks for.
	To []string
	// Note is a difference that users should know; "" if there is none.
	Note string
}

// Log logs the translation.
func (t Translated) Log(logger klog.Logger) {
	var note []any
	if t.Note != "" {
		note = []any{"note", t.Note}
	}
	if len(t.To) == 0 {
		logger.Info("Accepted a flag of Metacontroller that changes nothing here", append([]any{"flag", t.Flag}, note...)...)
		return
	}
	logger.Info("Translated a flag of Metacontroller", append([]any{"flag", t.Flag, "to", t.To}, note...)...)
}

// Translate sets the flags of Millwright in all, which has those of Metacontroller too, as the flags of Metacontroller ask for. It returns what
// it did, and all that is wrong in one line.
func (m *MetacontrollerFlags) Translate(all *pflag.FlagSet) (translated []Translated, err error) {
	given := givenFlags{all}
	var settings []setting
	var errs []error
	for _, t := range translations {
		if !given.has(t.name) {
			continue
		}
		done := Translated{Flag: "--" + t.name + "=" + given.value(t.name), Note: t.note}
		to, err := t.translate(given.value(t.name), given)
		for _, s := range to {
			if given.has(s.flag) {
				err = fmt.Errorf("must not be set together with %s, for which it stands here", dashed(s.flag))
			}
			done.To = append(done.To, dashed(s.flag)+"="+s.value)
		}
		if err != nil {
			errs = append(errs, invalid(t.name, given.value(t.name), "%w", err))
		}
		settings, translated = append(settings, to...), append(translated, done)
	}
	if len(errs) > 0 {
		return nil, flagerrors.Join(errs)
	}
	for _, s := range settings {
		if err := all.Set(s.flag, s.value); err != nil {
			errs = append(errs, err)
		}
	}
	return translated, flagerrors.Join(errs)
}

// givenFlags are the flags on the command line.
type givenFlags struct{ all *pflag.FlagSet }

func (g givenFlags) has(name string) bool { return g.all.Changed(name) }

func (g givenFlags) value(name string) string { return g.all.Lookup(name).Value.String() }

// dashed returns a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
