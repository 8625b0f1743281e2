// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller/engine"
	"millwright.dev/pkg/controller/engine/parent"
	"millwright.dev/pkg/hook"
	"millwright.dev/pkg/phase"
)

// minHookAnswerMemory is less than what makes sense, in bytes: bodies may have 1 MiB with it.
const minHookAnswerMemory = 16 << 20

// hookOptions are for the controller that calls hooks.
type hookOptions struct {
	// TargetLabelSelector selects the CompositeControllers and DecoratorControllers to serve; "" for all.
	TargetLabelSelector string
	// Workers are those of CompositeControllers, and of DecoratorControllers, instead of Options.Workers.
	Workers int
	// AnswerMemory bounds the memory of all answers of hooks in flight, as a quantity.
	AnswerMemory string
	// KeepManagedFields includes the managedFields of objects in requests.
	KeepManagedFields bool
	// ApplyStrategy is how children are written where their declaration does not set it.
	ApplyStrategy v1alpha1.ApplyStrategy
	// FieldManager is the manager of the fields that are written by server-side apply.
	FieldManager string

	once  sync.Once
	hooks *hook.Client
}

func newHookOptions() *hookOptions {
	return &hookOptions{Workers: defaultWorkers, AnswerMemory: "256Mi", ApplyStrategy: v1alpha1.ApplyDynamic, FieldManager: engine.DefaultFieldManager}
}

func (o *hookOptions) Group() string { return "hooks" }

func (o *hookOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.TargetLabelSelector, "target-label-selector", o.TargetLabelSelector,
		"The label selector of the CompositeControllers and DecoratorControllers to serve; empty for all. Each process of a set that share them by this flag needs a Lease of its own.")
	fs.IntVar(&o.Workers, "hook-workers", o.Workers,
		"The workers for all CompositeControllers together, and as many for all DecoratorControllers. For each worker, at most eight parents are worked on at the same time, and two calls to one host.")
	fs.StringVar(&o.AnswerMemory, "hook-answer-memory", o.AnswerMemory,
		"The memory that the answers of all hooks may take together while they are read and processed, at least 16Mi. The body of one answer may have a sixteenth of it, and take half of it once it is decoded; a larger one is refused. More than a quarter of the limit of the process leaves too little for objects.")
	fs.BoolVar(&o.KeepManagedFields, "hook-managed-fields", o.KeepManagedFields,
		"Include the metadata.managedFields of objects in requests to hooks, as Metacontroller does. They are held in memory, and are about half of an object.")
	fs.StringVar((*string)(&o.ApplyStrategy), "apply-strategy", string(o.ApplyStrategy),
		"How children and attachments are written where spec.applyStrategy of their controller does not set it: dynamic-apply, or server-side-apply.")
	fs.StringVar(&o.FieldManager, "apply-strategy-ssa-field-manager", o.FieldManager,
		"The manager of the fields that are written by server-side apply.")
}

func (o *hookOptions) Validate() (errs []error) {
	if o.Workers < 1 {
		errs = append(errs, invalid("hook-workers", o.Workers, "must be at least 1"))
	}
	if _, err := labels.Parse(o.TargetLabelSelector); err != nil {
		errs = append(errs, invalid("target-label-selector", o.TargetLabelSelector, "must be a label selector: %w", err))
	}
	if memory, err := resource.ParseQuantity(o.AnswerMemory); err != nil || memory.Value() < minHookAnswerMemory {
		errs = append(errs, invalid("hook-answer-memory", o.AnswerMemory, "must be a quantity of bytes of at least 16Mi, as in 256Mi"))
	}
	if !slices.Contains(parent.ApplyStrategies, o.ApplyStrategy) {
		errs = append(errs, invalid("apply-strategy", o.ApplyStrategy, "must be %s or %s", v1alpha1.ApplyDynamic, v1alpha1.ApplyServerSide))
	}
	if !isFieldManager(o.FieldManager) {
		errs = append(errs, invalid("apply-strategy-ssa-field-manager", o.FieldManager, "must have 1 to %d printable characters", metav1validation.FieldManagerMaxLength))
	}
	return errs
}

// isFieldManager reports whether the API server accepts a field manager.
func isFieldManager(name string) bool {
	return name != "" && len(metav1validation.ValidateFieldManager(name, nil)) == 0
}

func (o *hookOptions) ApplyTo(config *Config) { config.KeepManagedFields = o.KeepManagedFields }

// targets returns the selector, which is valid.
func (o *hookOptions) targets() labels.Selector {
	selector, _ := labels.Parse(o.TargetLabelSelector)
	return selector
}

// answerMemory returns the quantity, which is valid, in bytes.
func (o *hookOptions) answerMemory() int64 {
	memory := resource.MustParse(o.AnswerMemory)
	return memory.Value()
}

// phaseOptions are for the controller that runs phases.
type phaseOptions struct {
	// ServiceAccount of the Pods of phases whose Blueprint and ActionSet name none; "" for the namespace's default.
	ServiceAccount string
}

func (o *phaseOptions) Group() string { return "phases" }

func (o *phaseOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ServiceAccount, "phase-service-account", o.ServiceAccount,
		"The ServiceAccount of the Pods that phases of ActionSets create, where the Blueprint and the ActionSet name none. It has to be in the namespace of the Pod. Empty: what the API server gives such a Pod, which is 'default'; never that of the operator.")
}

func (o *phaseOptions) Validate() (errs []error) {
	if problems := validation.IsDNS1123Subdomain(o.ServiceAccount); o.ServiceAccount != "" && len(problems) > 0 {
		errs = append(errs, invalid("phase-service-account", o.ServiceAccount, "must be the name of a ServiceAccount: %s", problems[0]))
	}
	if slices.Contains(phase.OperatorAccounts(), o.ServiceAccount) {
		errs = append(errs, invalid("phase-service-account", o.ServiceAccount, "must not be an account of the operator, whose rights no phase may have"))
	}
	return errs
}

func (o *phaseOptions) ApplyTo(*Config) {}

// certificateOptions are for the controller that rotates the certificate of the farm.
type certificateOptions struct {
	// FarmNamespace is where the API server of Llamas runs.
	FarmNamespace string
}

func (o *certificateOptions) Group() string { return "certificate" }

func (o *certificateOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.FarmNamespace, "farm-namespace", o.FarmNamespace,
		"The namespace of the Service farm-operator (the API server of Llamas) and of its certificate, the Secret farm-operator-serving. The authority that signs it is in the Secret farm-operator-ca in the namespace of this Pod, or in millwright-system if that is not known.")
}

func (o *certificateOptions) Validate() (errs []error) {
	if problems := validation.IsDNS1123Label(o.FarmNamespace); len(problems) > 0 {
		errs = append(errs, invalid("farm-namespace", o.FarmNamespace, "must be the name of a namespace: %s", problems[0]))
	}
	return errs
}

func (o *certificateOptions) ApplyTo(*Config) {}

// invalid returns the error of a flag. What it must be is a format of fmt.Errorf.
func invalid(flag string, value any, must string, args ...any) error {
	return fmt.Errorf("invalid --%s \"%v\": "+must, append([]any{flag, value}, args...)...)
}
