// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package phase

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"millwright.dev/pkg/blueprint"
)

// Environment is what functions work with.
type Environment struct {
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Mapper knows what the API server serves.
	Mapper meta.ResettableRESTMapper
	// RESTConfig is what the streams of commands are opened with.
	RESTConfig *rest.Config
	// ServiceAccount of Pods for which nobody names one; "" is what the API server gives them.
	ServiceAccount string
	// OperatorNamespace is the one that this process runs in, where phases do nothing; "" where it is not known.
	OperatorNamespace string
	// Wake is called when something of a phase has changed, and it is worthwhile to poll it. It may be called from everywhere at
	// a time, and returns at once.
	Wake func(ID)
}

// Functions are all functions that phases can call.
type Functions struct {
	byName map[string]Function
	// left finds what phases have left.
	left []finder
	// forgotten is the function of phases of which nobody knows which one it is.
	forgotten Leaver
	// wait returns when nothing that the functions have started runs any more.
	wait func()
}

// New returns the functions. What they start in this process, such as streams and watches, ends with the context; Wait waits for that.
func New(ctx context.Context, env Environment) *Functions {
	pods := newPodRuns(ctx, env)
	run := newCommands(ctx, newExec(env), env.Wake)
	run.operator = operator{env.OperatorNamespace}
	kubeOps := &KubeOps{Client: env.Dynamic, Mapper: env.Mapper, Wake: env.Wake, operator: operator{env.OperatorNamespace}}
	wait := func(language blueprint.ConditionLanguage) *Wait {
		return &Wait{Client: env.Dynamic, Mapper: env.Mapper, Language: language, Wake: env.Wake, operator: operator{env.OperatorNamespace}}
	}
	return &Functions{
		byName: map[string]Function{
			"KubeExec":          KubeExec{run},
			"KubeExecAll":       KubeExecAll{run},
			"KubeOps":           kubeOps,
			"ScaleWorkload":     &ScaleWorkload{Client: env.Client, Dynamic: env.Dynamic, Mapper: env.Mapper, Wake: env.Wake, operator: operator{env.OperatorNamespace}},
			"Wait":              wait(blueprint.WaitLanguage{}),
			"WaitV2":            wait(blueprint.WaitV2Language{}),
			"KubeTask":          &podFunction{pods, planKubeTask},
			"MultiContainerRun": &podFunction{pods, planMultiContainerRun},
			"PrepareData":       &podFunction{pods, planPrepareData(env.Client)},
		},
		left:      []finder{pods, run},
		forgotten: &podFunction{runs: pods},
		wait: func() {
			pods.wait()
			run.wait()
		},
	}
}

// Get returns the function of that name; nil if there is none.
func (f *Functions) Get(name string) Function { return f.byName[name] }

// Forgotten is for phases of which nobody knows any more which function they have called, but their intent: it can only tell what they
// have left, and remove it.
func (f *Functions) Forgotten() Leaver { return f.forgotten }

// Wait returns when the context has ended and nothing that the functions have started runs any more.
func (f *Functions) Wait() { f.wait() }
