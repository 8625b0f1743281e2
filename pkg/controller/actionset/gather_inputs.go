// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package actionset

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"millwright.dev/pkg/apis/cr/v1alpha1"
	"millwright.dev/pkg/blueprint"
	"millwright.dev/pkg/phase"
)

// readNamed reads what is named.
func (s *syncer) readNamed(ctx context.Context, named namedInputs) (f inputs, err error) {
	if f.action, err = s.readObjects(ctx, &f, named.action, false); err != nil {
		return f, err
	}
	f.phases = make(map[int]inputObjects, len(named.phases))
	for _, index := range slices.Sorted(maps.Keys(named.phases)) {
		objects, err := s.readObjects(ctx, &f, named.phases[index], false)
		if err != nil {
			return f, err
		}
		optional, err := s.readObjects(ctx, &f, named.optional[index], true)
		if err != nil {
			return f, err
		}
		maps.Copy(objects.secrets, optional.secrets)
		maps.Copy(objects.configMaps, optional.configMaps)
		f.phases[index] = objects
	}
	f.profile, err = s.readProfile(ctx, named.profile, named.credential)
	return f, err
}

// readMentioned reads what templates of an action mention, which add adds. Its error is a *phase.Failure if one of these objects does not exist.
func (s *syncer) readMentioned(
	ctx context.Context, b *blueprint.Budget, action *snapshotAction, status *v1alpha1.ActionStatus, add func(*blueprint.Mentions) error,
) (inputs, error) {
	named := inputsNamed(action, status)
	if named.none() {
		return inputs{}, nil
	}
	m, err := inTurn(b, s.isSmall(inputs{}), func() (*blueprint.Mentions, error) {
		m := &blueprint.Mentions{}
		return m, add(m)
	})
	if err != nil {
		return inputs{}, err
	}
	return s.readNamed(ctx, named.mentionedBy(m, action))
}

// readForPhase reads what the arguments of a phase mention.
func (s *syncer) readForPhase(ctx context.Context, a preparePhase) (inputs, error) {
	b := blueprint.NewBudget(ctx)
	return s.readMentioned(ctx, b, &a.snapshot.Actions[a.key.action], a.status, func(m *blueprint.Mentions) error {
		return addMentions(m, b, a.snapshot.phaseOf(a.key))
	})
}

// readOwnObjects adds the objects of a phase that is about to begin, also those that no template mentions. missing is the reason why the phase cannot begin.
func (s *syncer) readOwnObjects(ctx context.Context, f *inputs, a preparePhase) (missing string, err error) {
	objects, err := s.readObjects(ctx, f, objectsOf(a.snapshot.phaseOf(a.key)), false)
	if message, definitive := phase.FailureOf(phase.Definitive(err)); definitive {
		return message, nil
	}
	if f.phases == nil {
		f.phases = map[int]inputObjects{}
	}
	f.phases[a.key.phase] = objects
	return "", err
}

func (s *syncer) readObjects(ctx context.Context, f *inputs, named namedObjects, optional bool) (objects inputObjects, err error) {
	if objects.secrets, err = readAll(ctx, f, named.secrets, optional, s.readSecret); err == nil {
		objects.configMaps, err = readAll(ctx, f, named.configMaps, optional, s.readConfigMap)
	}
	return objects, err
}

// maxInputBytes is the maximum size of the Secrets and ConfigMaps for the templates of one action, in bytes. Each worker may hold that much.
const maxInputBytes = 8 << 20

// readAll reads the objects of the references, by the same names. Optional ones may be missing, or not be readable. If all inputs together are too large, the
// error is a *phase.Failure.
func readAll[T any](
	ctx context.Context, f *inputs, references map[string]v1alpha1.ObjectReference, optional bool,
	read func(context.Context, v1alpha1.ObjectReference) (*T, error),
) (map[string]T, error) {
	objects := make(map[string]T, len(references))
	for _, name := range slices.Sorted(maps.Keys(references)) {
		object, err := read(ctx, references[name])
		if _, definitive := phase.FailureOf(phase.Definitive(err)); optional && definitive {
			continue
		}
		if err != nil {
			return objects, err
		}
		if sized, ok := any(object).(interface{ Size() int }); ok {
			f.size += sized.Size()
		}
		if f.size > maxInputBytes {
			return objects, phase.Failf("the Secrets and ConfigMaps that the action and its phases name have more than %d bytes together: name fewer of them, or smaller ones", maxInputBytes)
		}
		objects[name] = *object
	}
	return objects, nil
}

// readAndCount is readOnce, and counts what it reads.
func readAndCount[T any](ctx context.Context, r *reads, key readKey, read func() (*T, error)) (*T, error) {
	return readOnce(r, key, func() (*T, error) {
		object, err := read()
		if err == nil {
			phase.AddReads(ctx, 1, memoryOf(object))
		}
		return object, err
	})
}

func (s *syncer) readSecret(ctx context.Context, reference v1alpha1.ObjectReference) (*corev1.Secret, error) {
	namespace := cmp.Or(reference.Namespace, s.key.Namespace)
	if err := checkReference("the reference to a Secret", &reference); err != nil {
		return nil, err
	}
	return readAndCount(ctx, &s.reads, readKey{"Secret", namespace, reference.Name}, func() (*corev1.Secret, error) {
		secret, err := s.KubeClient.CoreV1().Secrets(namespace).Get(ctx, reference.Name, getOptions)
		if err != nil {
			return nil, fmt.Errorf("reading Secret %s/%s: %w", namespace, reference.Name, err)
		}
		if err := s.reach().RefuseSecret(s.key.Namespace, secret, secret.Type); err != nil {
			return nil, err
		}
		return secret, nil
	})
}

func (s *syncer) readConfigMap(ctx context.Context, reference v1alpha1.ObjectReference) (*corev1.ConfigMap, error) {
	namespace := cmp.Or(reference.Namespace, s.key.Namespace)
	if err := checkReference("the reference to a ConfigMap", &reference); err != nil {
		return nil, err
	}
	return readAndCount(ctx, &s.reads, readKey{"ConfigMap", namespace, reference.Name}, func() (*corev1.ConfigMap, error) {
		configMap, err := s.KubeClient.CoreV1().ConfigMaps(namespace).Get(ctx, reference.Name, getOptions)
		if err != nil {
			return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, reference.Name, err)
		}
		return configMap, nil
	})
}

// readProfile reads a Profile, and the Secrets of its credential if that is asked for. It returns nil without a reference.
func (s *syncer) readProfile(ctx context.Context, reference *v1alpha1.ObjectReference, credential bool) (*blueprint.Profile, error) {
	if reference == nil {
		return nil, nil
	}
	namespace := cmp.Or(reference.Namespace, s.key.Namespace)
	kind := "Profile"
	if !credential {
		kind = "Profile without its credential"
	}
	return readAndCount(ctx, &s.reads, readKey{kind, namespace, reference.Name}, func() (*blueprint.Profile, error) {
		return s.getProfile(ctx, namespace, reference.Name, credential)
	})
}

func (s *syncer) getProfile(ctx context.Context, namespace, name string, credential bool) (*blueprint.Profile, error) {
	profile, err := s.Client.CrV1alpha1().Profiles(namespace).Get(ctx, name, getOptions)
	if err != nil {
		return nil, fmt.Errorf("reading Profile %s/%s: %w", namespace, name, err)
	}
	if !credential {
		return withoutCredential(profile), nil
	}
	secrets := map[v1alpha1.ObjectReference]*corev1.Secret{}
	for _, named := range secretsOf(profile) {
		if err := checkReference(fmt.Sprintf("the Secret in the credential of Profile %s/%s", namespace, name), &named); err != nil {
			return nil, err
		}
		secret, err := s.readSecret(ctx, named)
		if err != nil {
			return nil, fmt.Errorf("reading Profile %s/%s: %w", namespace, name, err)
		}
		secrets[named] = secret
	}
	params, err := profileOf(profile, secrets)
	if err != nil {
		return nil, phase.Failf("Profile %s/%s: %v", namespace, name, err)
	}
	return params, nil
}
