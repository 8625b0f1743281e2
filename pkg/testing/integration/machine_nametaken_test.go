// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/useless/v1alpha1"
	"millwright.dev/pkg/testing/faultproxy"
	"millwright.dev/pkg/testing/testcluster"
)

// A Machine chooses the names of its switches. Only with a stale cache it tries a name that is taken. Then it has to read the live object, and
// chooses another name.
func TestMachineSwitchNameTaken(t *testing.T) {
	t.Parallel()
	e := newEnv(t, testcluster.Shared(t))
	var journal faultproxy.Journal
	proxy, _ := runMachinesBehindProxy(e, &journal)
	e.createMachine(newMachine("m", 1, quick))
	_, kept := e.awaitMachine("m", 1)
	e.eventually(func() string { // creation times are whole seconds, and the newest of surplus switches is deleted
		if time.Since(kept[0].CreationTimestamp.Time) < 2*time.Second {
			return "the next Switch would have the same creation time as the first"
		}
		return ""
	})
	scale := func(replicas string) { e.kubectl("scale", "machine", "m", "--replicas="+replicas) }
	scale("2")
	_, both := e.awaitMachine("m", 2)
	name := both[0].Name
	if name == kept[0].Name {
		name = both[1].Name
	}
	scale("1")
	e.awaitMachine("m", 1)
	e.flipUp(kept[0].Name)
	e.awaitMachine("m", 1)
	// The controller observes another generation when its cache has shown the flip. The same watch has shown the deletion before.
	e.kubectl("patch", "machine", "m", "--type=merge", "-p", `{"spec":{"flipIntervalSeconds":2}}`)
	e.awaitMachine("m", 1)

	watchesSwitches := func(r faultproxy.Request) bool { return r.Verb == "watch" && r.Resource == "switches" }
	seeAgain := proxy.Answer(watchesSwitches, apierrors.NewInternalError(errors.New("blind")))
	proxy.CutWatches()
	theirs := &v1alpha1.Switch{ObjectMeta: metav1.ObjectMeta{Name: name}}
	theirs, err := e.client.UselessV1alpha1().Switches(e.namespace).Create(t.Context(), theirs, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	scale("2")
	e.eventually(func() string {
		if len(journal.Select(func(entry faultproxy.Entry) bool {
			return entry.Verb == "get" && entry.Resource == "switches" && entry.Name == name && entry.Code == http.StatusOK
		})) == 0 {
			return "the controller has not read the Switch that has the name"
		}
		return ""
	})
	seeAgain()
	e.awaitMachine("m", 2)
	now, err := e.client.UselessV1alpha1().Switches(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if now.ResourceVersion != theirs.ResourceVersion {
		t.Errorf("the foreign Switch was changed: %+v", now)
	}
}
