// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package function

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

const (
	// fieldManager of what KubeOps creates. Users may look for it.
	fieldManager = "kanister-create"
	// deletionPoll is the shortest interval in which it is checked whether a deleted object is gone.
	deletionPoll = time.Second
	// defaultNamespace is the namespace of objects if none is given.
	defaultNamespace = metav1.NamespaceDefault
)

// KubeOps creates, deletes or patches objects of any kind.
//
// A late request, after later phases, reverts nothing: an object is created only if none has its name, deleted only with its UID, and patched
// only with its UID and resourceVersion. If another client has changed it since the resourceVersion was recorded, the new one is recorded first.
// Only an object that was created and then deleted may be created again by a late request.
type KubeOps struct {
	Client dynamic.Interface
	Mapper *Mapper
	Wake   func(phase.ID)

	reach   phase.Reach
	stopped stoppedCalls
	pace    *pace
}

var _ phase.Function = (*KubeOps)(nil)

// kubeOpsIntent names the objects that are changed.
type kubeOpsIntent struct {
	Operation string   `json:"operation"`
	Objects   []target `json:"objects"`
	// Nonce is in the mark of the objects; "" if an earlier release of the operator has recorded the intent.
	Nonce string `json:"nonce,omitempty"`
}

// mark returns the annotation of what is created or patched.
func (i kubeOpsIntent) mark(id phase.ID) string {
	if i.Nonce == "" {
		return mark(id)
	}
	return mark(id) + "." + i.Nonce
}

// Validate implements Function.
func (k *KubeOps) Validate(ctx context.Context, call phase.Call) (map[string]any, error) {
	args, err := kubeOpsArgs(call)
	if err != nil {
		return nil, err
	}
	intent := kubeOpsIntent{Operation: args.Operation, Nonce: phase.NewNonce()}
	switch args.Operation {
	case "create":
		objects, err := manifests(ctx, args.Spec)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			t, err := k.newTarget(ctx, object, args.Namespace)
			if err == nil {
				err = k.refuse(call.ID, t, object)
			}
			if err != nil {
				return nil, err
			}
			intent.Objects = append(intent.Objects, t)
		}
	case "delete", "patch":
		t, err := k.existing(ctx, call.ID, args)
		if err != nil {
			return nil, err
		}
		intent.Objects = []target{t}
		if args.Operation == "patch" {
			_, err = patchOf(ctx, args.Spec, intent.mark(call.ID), t)
		}
		if err != nil {
			return nil, err
		}
	default:
		return nil, phase.Failf("invalid operation '%s'", args.Operation)
	}
	return phase.EncodeIntent(intent)
}

// Start implements Function.
func (k *KubeOps) Start(ctx context.Context, call phase.Call) (phase.Observation, error) {
	var intent kubeOpsIntent
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return phase.Observation{}, err
	}
	args, err := kubeOpsArgs(call)
	for _, t := range intent.Objects {
		if err == nil {
			err = k.refuse(call.ID, t, nil)
		}
	}
	if err != nil {
		return phase.Ended(err)
	}
	look := false // whether the objects have to be read again
	switch intent.Operation {
	case "create":
		look, err = k.create(ctx, call.ID, args, intent)
	case "delete":
		look, err = true, k.delete(ctx, intent.Objects[0])
	case "patch":
		return k.patch(ctx, call.ID, args, intent)
	}
	switch {
	case err != nil:
		return phase.Ended(err)
	case look:
		return k.Poll(ctx, call)
	default:
		return intent.succeeded(), nil
	}
}

// refuse returns a *Failure if an object is out of reach. created is what would be created; nil if the object exists.
func (k *KubeOps) refuse(id phase.ID, t target, created *unstructured.Unstructured) error {
	if err := k.reach.RefuseChange(id.Namespace, t.resource().GroupResource(), t.Namespace, t.Name); err != nil || created == nil || !t.secret() {
		return err
	}
	secretType, _, _ := unstructured.NestedString(created.Object, "type")
	return phase.RefuseToken(t.Namespace, t.Name, corev1.SecretType(secretType))
}

// succeeded returns the observation of a call that has succeeded. The output is the reference to the last object.
func (i kubeOpsIntent) succeeded() phase.Observation {
	observed := phase.Observation{State: phase.Succeeded}
	if n := len(i.Objects); n > 0 {
		observed.Output = i.Objects[n-1].output()
	}
	return observed
}

// Poll implements Function.
func (k *KubeOps) Poll(ctx context.Context, call phase.Call) (phase.Observation, error) {
	return k.pace.poll(ctx, call, k.look)
}

// look reads the objects.
func (k *KubeOps) look(ctx context.Context, call phase.Call) (phase.Observation, error) {
	var intent kubeOpsIntent
	if err := phase.DecodeIntent(call.Intent, &intent); err != nil {
		return phase.Observation{}, err
	}
	for _, t := range intent.Objects {
		object, err := k.get(ctx, t)
		if err != nil {
			return phase.Ended(err)
		}
		if observed := k.observe(call.ID, intent, t, object); observed.State != phase.Succeeded {
			return observed, nil
		}
	}
	return intent.succeeded(), nil
}

// get reads an object; nil if it does not exist, or if another object has its name.
func (k *KubeOps) get(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	var object *unstructured.Unstructured
	err := k.Mapper.inServedVersion(ctx, t, isFound, func(t target) (err error) {
		object, err = k.on(t).Get(phase.OnlyMetadata(ctx), t.Name, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err), err == nil && t.UID != "" && object.GetUID() != t.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", t.resource().GroupResource(), t.Name, phase.Definitive(err))
	default:
		return object, nil
	}
}

// observe returns the state of a call for one of its objects; object is nil if it is gone.
func (k *KubeOps) observe(id phase.ID, intent kubeOpsIntent, t target, object *unstructured.Unstructured) phase.Observation {
	switch operation := intent.Operation; {
	case operation == "delete" && object == nil:
	case operation == "delete" && object.GetDeletionTimestamp() == nil:
		return phase.Observation{State: phase.Idle}
	case operation == "delete" && k.stopped.has(id):
		return phase.Observation{State: phase.Stopped}
	case operation == "delete":
		waiting := phase.Waiting{For: t.String() + " to be gone"}
		if finalizers := object.GetFinalizers(); len(finalizers) > 0 {
			waiting.Details = "it has the finalizers " + strings.Join(finalizers, ", ")
		}
		return phase.Observation{State: phase.Running, PollAfter: deletionPoll, Waiting: waiting}
	case operation == "patch" && object == nil:
		return phase.Observation{State: phase.Failed, Message: apierrors.NewNotFound(t.resource().GroupResource(), t.Name).Error()}
	case object == nil:
		return phase.Observation{State: phase.Idle}
	case object.GetAnnotations()[phase.AnnotationPhase] == intent.mark(id):
	case operation == "patch":
		return phase.Observation{State: phase.Idle}
	default:
		return phase.Observation{State: phase.Failed, Message: apierrors.NewAlreadyExists(t.resource().GroupResource(), t.Name).Error()}
	}
	return phase.Observation{State: phase.Succeeded}
}

// Cancel implements Function. It only ends the wait for the deletion of an object. The effect of the call stays.
func (k *KubeOps) Cancel(_ context.Context, call phase.Call) error {
	k.pace.end(call.ID)
	k.stopped.add(call.ID)
	k.Wake(call.ID)
	return nil
}

// create creates the objects in their order. It reports whether one of them exists: an earlier Start may have created it.
func (k *KubeOps) create(ctx context.Context, id phase.ID, args blueprint.KubeOpsArgs, intent kubeOpsIntent) (found bool, _ error) {
	objects, err := manifests(ctx, args.Spec)
	if err != nil {
		return false, err
	}
	if len(objects) != len(intent.Objects) {
		return false, phase.Failf("the spec has %d objects now, and had %d when the phase began", len(objects), len(intent.Objects))
	}
	for i, t := range intent.Objects {
		object := objects[i]
		object.SetName(t.Name)
		object.SetGenerateName("")
		object.SetNamespace(t.Namespace)
		if err := k.refuse(id, t, object); err != nil {
			return found, err
		}
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[phase.AnnotationPhase] = intent.mark(id)
		object.SetAnnotations(annotations)
		_, err := k.on(t).Create(phase.OnlyMetadata(ctx), object, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			found = true // Poll checks which phase has created it
			continue
		}
		if err != nil {
			return false, fmt.Errorf("creating %s %s: %w", t.resource().GroupResource(), t.Name, phase.Definitive(err))
		}
	}
	return found, nil
}

func (k *KubeOps) delete(ctx context.Context, t target) error {
	err := k.Mapper.inServedVersion(ctx, t, isFound, func(t target) error {
		return k.on(t).Delete(phase.OnlyMetadata(ctx), t.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(t.UID)}})
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // a conflict means that an object with another UID has its name: ours is gone
	}
	return fmt.Errorf("deleting %s %s: %w", t.resource().GroupResource(), t.Name, phase.Definitive(err))
}

// patch applies a strategic merge patch, as kubectl does, or a merge patch if the kind does not support it.
func (k *KubeOps) patch(ctx context.Context, id phase.ID, args blueprint.KubeOpsArgs, intent kubeOpsIntent) (phase.Observation, error) {
	t := &intent.Objects[0]
	body, err := patchOf(ctx, args.Spec, intent.mark(id), *t)
	if err != nil {
		return phase.Ended(err)
	}
	_, err = k.on(*t).Patch(phase.OnlyMetadata(ctx), t.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{})
	if apierrors.IsUnsupportedMediaType(err) {
		_, err = k.on(*t).Patch(phase.OnlyMetadata(ctx), t.Name, types.MergePatchType, body, metav1.PatchOptions{})
	}
	switch {
	case err == nil:
		return intent.succeeded(), nil
	case !apierrors.IsConflict(err):
		return phase.Ended(fmt.Errorf("patching %s %s: %w", t.resource().GroupResource(), t.Name, phase.Definitive(err)))
	}
	// The object has changed, perhaps by an earlier request of ours whose answer was lost.
	changed, err := k.get(ctx, *t)
	if err != nil {
		return phase.Ended(err)
	}
	switch observed := k.observe(id, intent, *t, changed); observed.State {
	case phase.Succeeded:
		return intent.succeeded(), nil
	case phase.Idle:
		t.ResourceVersion = changed.GetResourceVersion()
		renewed, err := phase.EncodeIntent(intent)
		return phase.Observation{State: phase.Ready, Intent: renewed}, err
	default:
		return observed, nil
	}
}

func (k *KubeOps) on(t target) dynamic.ResourceInterface {
	return k.Client.Resource(t.resource()).Namespace(t.Namespace)
}

// mark names a phase.
func mark(id phase.ID) string { return string(id.UID) + "." + id.String() }

func kubeOpsArgs(call phase.Call) (args blueprint.KubeOpsArgs, err error) {
	if err := blueprint.Decode(call.Args, &args); err != nil {
		return args, phase.Failf("%v", err)
	}
	return args, nil
}
