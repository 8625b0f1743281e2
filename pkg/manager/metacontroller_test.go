// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2/ktesting"
)

// allMetacontrollerFlags are those in the help of Metacontroller 4.17.
const allMetacontrollerFlags = "apply-strategy apply-strategy-ssa-field-manager cache-flush-interval client-go-burst client-go-qps discovery-interval events-burst events-qps " +
	"health-probe-bind-address kubeconfig leader-election leader-election-id leader-election-namespace leader-election-resource-lock metrics-address pprof-address " +
	"target-label-selector workers zap-devel zap-encoder zap-log-level zap-stacktrace-level zap-time-encoding"

// commandLine has all flags of the command, as it has.
type commandLine struct {
	*pflag.FlagSet
	options        *Options
	metacontroller *MetacontrollerFlags
}

func newCommandLine() commandLine {
	c := commandLine{pflag.NewFlagSet("controllers", pflag.ContinueOnError), NewOptions(), NewMetacontrollerFlags()}
	for _, group := range c.options.Flags().FlagSets {
		c.AddFlagSet(group)
	}
	logsapi.AddFlags(logsapi.NewLoggingConfiguration(), c.FlagSet)
	c.AddFlagSet(c.metacontroller.Flags())
	return c
}

// translate returns what the arguments set, or all that is wrong with them.
func (c commandLine) translate(t *testing.T, args ...string) (to []string, err error) {
	t.Helper()
	if err := c.Parse(args); err != nil {
		t.Fatal(err)
	}
	translated, err := c.metacontroller.Translate(c.FlagSet)
	if err != nil {
		return nil, err
	}
	for _, flag := range translated {
		to = append(to, flag.To...)
	}
	return to, c.options.Validate()
}

func TestEveryFlagOfMetacontrollerIsKnown(t *testing.T) {
	all := strings.Fields(allMetacontrollerFlags)
	c := newCommandLine()
	for _, name := range all {
		flag := c.Lookup(name)
		if flag == nil || !IsMetacontrollerFlag(name) {
			t.Errorf("--%s is unknown", name)
			continue
		}
		if own := slices.Contains(sharedFlags, name); flag.Hidden == own {
			t.Errorf("--%s: hidden is %t, want only those hidden that are no flags of Millwright", name, flag.Hidden)
		}
	}
	for _, translation := range translations {
		if !slices.Contains(all, translation.name) {
			t.Errorf("--%s is no flag of Metacontroller", translation.name)
		}
	}
}

func TestFlagsOfMetacontroller(t *testing.T) {
	tested := slices.Clone(sharedFlags) // see TestValidate
	for _, test := range []struct {
		args string
		to   string // the flags of Millwright, separated by blanks
		want string // a part of the error; "" if there is to be none
	}{
		{"--client-go-qps=0.5", "--kube-api-qps=0.5", ""},
		{"--client-go-qps=0", "", `invalid --client-go-qps "0": must be a positive number: without this flag, there is no limit`},
		{"--client-go-qps=-1", "", "must be a positive number"},
		{"--client-go-qps=many", "", "must be a positive number"},
		{"--client-go-qps=5 --kube-api-qps=6", "", `invalid --client-go-qps "5": must not be set together with --kube-api-qps, for which it stands here`},
		{"--client-go-burst=10 --client-go-qps=5", "--kube-api-qps=5 --kube-api-burst=10", ""},
		{"--client-go-burst=10 --kube-api-qps=5", "--kube-api-burst=10", ""},
		{"--client-go-burst=10", "", `invalid --client-go-burst "10": must be set together with --client-go-qps`},
		{"--client-go-burst=1.5", "", "must be a positive whole number"},
		{"--health-probe-bind-address=:8081", "--serving-address=:8081", ""},
		{"--health-probe-bind-address=0", "--serving-address=0", ""},
		{"--health-probe-bind-address=localhost", "", `invalid --health-probe-bind-address "localhost": must be host:port`},
		{"--leader-election", "--leader-elect=true", ""},
		{"--leader-election=false", "--leader-elect=false", ""},
		{"--leader-election-id=metacontroller", "--leader-elect-lease-name=metacontroller", ""},
		{"--leader-election-id=A", "", `invalid --leader-election-id "A": must be a valid --leader-elect-lease-name: `},
		{"--leader-election-namespace=metacontroller", "--leader-elect-lease-namespace=metacontroller", ""},
		{"--leader-election-namespace=", "--leader-elect-lease-namespace=", ""},
		{"--leader-election-namespace=A", "", "must be a valid --leader-elect-lease-namespace: "},
		{"--leader-election-resource-lock=leases", "", ""},
		{"--leader-election-resource-lock=configmaps", "", `invalid --leader-election-resource-lock "configmaps": must be leases: the lock is always a Lease`},
		{"--pprof-address=0", "", ""},
		{"--pprof-address=:6060", "", `invalid --pprof-address ":6060": must be 0: profiles are not served`},
		{"--zap-log-level=4", "-v=4", ""},
		{"--zap-log-level=DEBUG", "-v=1", ""},
		{"--zap-log-level=info", "-v=0", ""},
		{"--zap-log-level=error", "", `invalid --zap-log-level "error": must be debug, info or a number, which is that of -v`},
		{"--zap-log-level=-1", "", "must be debug, info or a number"},
		{"--zap-log-level=4 -v=2", "", "must not be set together with -v"},
		{"--zap-encoder=json", "--logging-format=json", ""},
		{"--zap-encoder=console", "--logging-format=text", ""},
		{"--zap-encoder=xml", "", `invalid --zap-encoder "xml": must be json, or console`},
		{"--zap-devel", "--logging-format=text -v=1", ""},
		{"--zap-devel=false", "--logging-format=json", ""},
		{"--zap-devel --zap-encoder=json --zap-log-level=4", "-v=4 --logging-format=json", ""},
		{"--zap-devel --logging-format=json -v=4", "", ""},
		{"--zap-stacktrace-level=error", "", ""},
		{"--zap-time-encoding=iso8601", "", ""},
		{"--discovery-interval=20s", "", ""},
		{"--discovery-interval=20", "", `invalid --discovery-interval "20": must be a duration, such as 20s`},
		{"--cache-flush-interval=30m", "", ""},
		{"--cache-flush-interval=", "", `invalid --cache-flush-interval "": must be a duration`},
		{"--events-qps=0.0033", "", ""},
		{"--events-qps=few", "", `invalid --events-qps "few": must be a number`},
		{"--events-burst=25", "", ""},
	} {
		t.Run(test.args, func(t *testing.T) {
			args := strings.Fields(test.args)
			name, _, _ := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
			tested = append(tested, name)
			c := newCommandLine()
			to, err := c.translate(t, args...)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "--"+name) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got  %v\nwant %s", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Fields(test.to), to, cmp.Transformer("", func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			for _, flag := range to {
				name, value, _ := strings.Cut(strings.TrimLeft(flag, "-"), "=")
				if got := c.Lookup(name).Value.String(); got != value {
					t.Errorf("%s is not set: the value is %q", flag, got)
				}
			}
		})
	}
	for _, name := range strings.Fields(allMetacontrollerFlags) {
		if !slices.Contains(tested, name) {
			t.Errorf("--%s is not tested", name)
		}
	}
}

// TestDeploymentsOfMetacontroller has the arguments of its manifests and of its chart. None is ignored.
func TestDeploymentsOfMetacontroller(t *testing.T) {
	for name, test := range map[string]struct {
		args    string
		refused string
	}{
		"its manifest for production": {"--zap-log-level=4 --discovery-interval=20s --cache-flush-interval=30m", ""},
		"all that its chart may set": {
			"--zap-log-level=4 --zap-devel=false --zap-encoder=json --zap-stacktrace-level=error --discovery-interval=1m --cache-flush-interval=10m " +
				"--metrics-address=:9999 --client-go-qps=150 --client-go-burst=300 --workers=50 --events-qps=0.0033 --events-burst=25 --pprof-address=:6060",
			"metrics-address workers pprof-address",
		},
		"its chart with leader election": {"--leader-election", ""},
		"what is left":                   {"--zap-log-level=4 --zap-devel=false --zap-encoder=json --client-go-qps=150 --client-go-burst=300 --leader-election --pprof-address=0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCommandLine()
			args := strings.Fields(test.args)
			if err := c.Parse(append([]string{"--controllers=compositecontroller"}, args...)); err != nil {
				t.Fatal(err)
			}
			_, err := c.metacontroller.Translate(c.FlagSet)
			message := fmt.Sprint(err, "; ", c.options.Validate())
			for _, arg := range args {
				name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
				refused := strings.Contains(message, "--"+name+" is a flag of Metacontroller: ") || strings.Contains(message, "invalid --"+name+" ")
				if want := slices.Contains(strings.Fields(test.refused), name); refused != want {
					t.Errorf("%s: it is refused: %t, want %t: %s", arg, refused, want, message)
				}
			}
		})
	}
}

func TestTranslationsAreLogged(t *testing.T) {
	c := newCommandLine()
	if err := c.Parse([]string{"--health-probe-bind-address=:8081", "--pprof-address=0", "--zap-log-level=4", "--discovery-interval=20s"}); err != nil {
		t.Fatal(err)
	}
	translated, err := c.metacontroller.Translate(c.FlagSet)
	if err != nil {
		t.Fatal(err)
	}
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	for _, flag := range translated {
		flag.Log(logger)
	}
	logged := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	for _, want := range []string{
		`Translated a flag of Metacontroller flag="--health-probe-bind-address=:8081" to=["--serving-address=:8081"] note="/metrics is served there too, unless --metrics-address is set"`,
		`Translated a flag of Metacontroller flag="--zap-log-level=4" to=["-v=4"]`,
		`Accepted a flag of Metacontroller that changes nothing here flag="--pprof-address=0"`,
		`Accepted a flag of Metacontroller that changes nothing here flag="--discovery-interval=20s" note="changes of the APIs that the API server serves are detected"`,
	} {
		if !strings.Contains(logged, want) {
			t.Errorf("the log has no line %s:\n%s", want, logged)
		}
	}
}
