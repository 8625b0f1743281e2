// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"errors"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
	"millwright.dev/pkg/phase/exec"
	"millwright.dev/pkg/phase/podrun"
)

// Functions has all functions that phases can call.
type Functions struct {
	byName map[string]phase.Function
	// finders find what phases have left.
	finders []finder
	// forgotten is the function of phases whose function is not known.
	forgotten phase.Leaver
	// wait returns when nothing that the functions have started runs any more.
	wait func()
}

// New returns the functions. What they start in this process, such as streams and watches, ends with the context; Wait waits for that.
func New(ctx context.Context, env phase.Environment) *Functions {
	pods := podrun.New(ctx, env)
	commands := exec.New(ctx, exec.NewExecutor(env), env.Wake)
	mapper := NewMapper(env.Client.Discovery())
	polls := &pace{}
	kubeOps := &KubeOps{Client: env.Dynamic, Mapper: mapper, Wake: env.Wake, reach: env.Reach, pace: polls}
	scaleWorkload := &ScaleWorkload{Client: env.Client, Dynamic: env.Dynamic, Mapper: mapper, Wake: env.Wake, reach: env.Reach, pace: polls}
	wait := func(language blueprint.ConditionLanguage) *Wait {
		return &Wait{Client: env.Dynamic, Mapper: mapper, Language: language, Wake: env.Wake, reach: env.Reach, pace: polls}
	}
	return &Functions{
		byName: map[string]phase.Function{
			"KubeExec":          kubeExec{commands, env.Reach, kubeExecArgs},
			"KubeExecAll":       kubeExec{commands, env.Reach, kubeExecAllArgs},
			"KubeOps":           kubeOps,
			"ScaleWorkload":     scaleWorkload,
			"Wait":              wait(blueprint.WaitLanguage{}),
			"WaitV2":            wait(blueprint.WaitV2Language{}),
			"KubeTask":          pods.Function(planKubeTask),
			"MultiContainerRun": pods.Function(planMultiContainerRun),
			"PrepareData":       pods.Function(planPrepareData(env.Client)),
		},
		finders:   []finder{pods, commands},
		forgotten: pods.Function(nil),
		wait: func() {
			pods.Wait()
			commands.Wait()
		},
	}
}

// Get returns the function with this name; nil if there is none.
func (f *Functions) Get(name string) phase.Function { return f.byName[name] }

// Forgotten returns the function for phases whose function is no longer known, but whose intent is. It can only report and remove what they
// have left.
func (f *Functions) Forgotten() phase.Leaver { return f.forgotten }

// Wait returns when the context has ended and nothing that the functions have started runs any more.
func (f *Functions) Wait() { f.wait() }

// finder finds what phases have left in caches and in this process, without their snapshot.
type finder interface {
	// Found returns the phases of ActionSets with this name, of any UID, that have left something.
	Found(namespace, name string) []phase.ID
	// Remove removes what a phase has left.
	Remove(ctx context.Context, id phase.ID) error
}

// Found returns the phases of ActionSets with this name, of any UID, of which caches have something that Cancel would remove. It sends no
// request.
func (f *Functions) Found(namespace, name string) (ids []phase.ID) {
	for _, finder := range f.finders {
		ids = append(ids, finder.Found(namespace, name)...)
	}
	return ids
}

// Remove removes what caches have of the phase.
func (f *Functions) Remove(ctx context.Context, id phase.ID) error {
	var errs []error
	for _, finder := range f.finders {
		errs = append(errs, finder.Remove(ctx, id))
	}
	return errors.Join(errs...)
}
