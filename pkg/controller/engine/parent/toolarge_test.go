// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package parent

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
)

// etcdTooLarge returns the error of an API server if etcd rejects an object as too large.
func etcdTooLarge() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}}
}

// large returns answered with more data in the child b than annotations may have.
func large() string {
	return strings.Replace(answered, `"k":"1"`, `"k":"`+strings.Repeat("x", 300<<10)+`"`, 1)
}

func TestAnnotationTooLarge(t *testing.T) {
	for _, method := range []v1alpha1.ChildUpdateMethod{v1alpha1.ChildUpdateInPlace, v1alpha1.ChildUpdateRecreate} {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, is there: %v", method, there), func(t *testing.T) {
				w := newWorld(t, withMethod(method))
				if there {
					w.sync(answered)
				}
				p, err := w.decide(phaseSync, strings.Replace(large(), `"k":"1"`, `"k":"2"`, 1))
				if err != nil {
					t.Fatal(err)
				}
				if len(p.problems) != 1 || !strings.Contains(p.problems[0].Error(), "ConfigMap ns/b") ||
					!strings.Contains(p.problems[0].Error(), "262144") || !controller.IsPermanent(join(p.problems)) {
					t.Errorf("the problems are %v", p.problems)
				}
				if len(p.steps) != 1 || p.steps[0].child.name != "a" {
					t.Errorf("the steps are %v", p.steps)
				}
			})
		}
	}
}

func TestChildTooLargeIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	w.sync(answered)
	other := strings.ReplaceAll(answered, `"k":"1"`, `"k":"2"`)
	p, err := w.decide(phaseSync, other)
	if err != nil || len(p.steps) != 2 {
		t.Fatalf("the steps are %v, %v", p.steps, err)
	}
	for _, step := range p.steps {
		p.history.recordTooLarge(step, "too large")
	}
	w.history = p.history
	for range 2 {
		p, err = w.decide(phaseSync, other)
		if err != nil || len(p.steps) != 0 || len(p.problems) != 2 || !controller.IsPermanent(join(p.problems)) {
			t.Errorf("the steps are %v, the problems %v, %v", p.steps, p.problems, err)
		}
		w.history = p.history
	}
	w.edit("a", func(tree map[string]any) {
		tree["metadata"].(map[string]any)["annotations"].(map[string]any)["less"] = "b"
	})
	if p, err = w.decide(phaseSync, other); err != nil || fmt.Sprint(p.steps) != "[update ConfigMap ns/a]" {
		t.Errorf("the child has changed, and the steps are %v, %v", p.steps, err)
	}
	w.want(strings.ReplaceAll(answered, `"k":"1"`, `"k":"3"`), "update ConfigMap ns/b", "update ConfigMap ns/a")
}

func TestStatusTooLargeIsNotRepeated(t *testing.T) {
	w := newWorld(t)
	p, err := w.decide(phaseSync, `{"status":{"large":true}}`)
	if err != nil || p.status == nil {
		t.Fatalf("the status is %v, %v", p.status, err)
	}
	p.history.recordStatusTooLarge(p.status, w.parent.GetResourceVersion(), "too large")
	w.history = p.history
	for range 2 {
		p, err = w.decide(phaseSync, `{"status":{"large":true}}`)
		if err != nil || p.status != nil || len(p.problems) != 1 || !controller.IsPermanent(join(p.problems)) {
			t.Errorf("the status is %v, the problems are %v, %v", p.status, p.problems, err)
		}
		w.history = p.history
	}
	if p, _ = w.decide(phaseSync, `{"status":{"large":false}}`); p.status == nil || len(p.problems) > 0 {
		t.Error("another status is not written")
	}
	w.parent = text(strings.Replace(string(w.parent), `"resourceVersion":"1"`, `"resourceVersion":"2"`, 1))
	if p, _ = w.decide(phaseSync, `{"status":{"large":true}}`); p.status == nil {
		t.Error("the parent has changed, and its status is not written")
	}
}

func TestTooLargeProblem(t *testing.T) {
	got := problemOf(fmt.Errorf("joined: %w", asTooLarge(etcdTooLarge())))
	if got == nil || got.Reason != v1alpha1.ReasonTooLarge || !strings.Contains(got.Message, "request is too large") {
		t.Errorf("the problem is %v", got)
	}
	other := errors.New("another")
	if got := asTooLarge(other); got != other {
		t.Errorf("it is %v", got)
	}
	large := asTooLarge(etcdTooLarge())
	if controller.IsPermanent(join([]error{large, nil, other})) || !controller.IsPermanent(join([]error{nil, large})) {
		t.Error("one error that passes by itself must be retried, and none that does not")
	}
}
