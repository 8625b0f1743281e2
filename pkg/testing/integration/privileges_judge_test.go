// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// requests are those of each account in all clusters of this run, as their API servers have logged them.
var requests = map[deployment]*requestLog{
	core: {neverRequested: neverRequestedByCore}, engine: {}, actions: {neverRequested: neverRequestedByActions}, farmOperator: {},
}

// requestLog keeps what is to be judged of many requests.
type requestLog struct {
	mu        sync.Mutex
	used      map[right]bool
	forbidden []string // what the authorizer refused, a line each
	// mayBeForbidden are resources of which that is no fault.
	mayBeForbidden map[schema.GroupResource]bool
	// neverRequested are rights that no request needs by itself.
	neverRequested map[right]string
}

// expectForbidden tells that a test is about what a missing right to this resource leads to.
func (l *requestLog) expectForbidden(resource schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mayBeForbidden == nil {
		l.mayBeForbidden = map[schema.GroupResource]bool{}
	}
	l.mayBeForbidden[resource] = true
}

func (l *requestLog) add(event *auditv1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// What the authorizer allowed may still be refused by admission, for reasons that are no matter of rights.
	if event.Annotations["authorization.k8s.io/decision"] == "forbid" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusForbidden {
		if of := event.ObjectRef; of != nil && l.mayBeForbidden[schema.GroupResource{Group: of.APIGroup, Resource: of.Resource}] {
			return
		}
		if line := forbiddenLine(event); !slices.Contains(l.forbidden, line) { // it is tried again and again
			l.forbidden = append(l.forbidden, line)
		}
		return
	}
	if l.used == nil {
		l.used = map[right]bool{}
	}
	if of := event.ObjectRef; of != nil {
		l.used[rightFor(event)] = true
	}
}

// rightFor is what the request for a resource needs.
func rightFor(event *auditv1.Event) right {
	of := event.ObjectRef
	r := right{event.Verb, of.APIGroup, of.Resource}
	if of.Subresource != "" {
		r.resource += "/" + of.Subresource
	}
	return r
}

func forbiddenLine(event *auditv1.Event) string {
	if event.ObjectRef == nil {
		return event.Verb + " " + event.RequestURI
	}
	return fmt.Sprintf("%s, object %q in namespace %q, by %s", rightFor(event), event.ObjectRef.Name, event.ObjectRef.Namespace, event.UserAgent)
}

// neverRequestedByCore are rights that no request needs by itself, with the kind whose objects would not come up without: the API server asks
// for them in the course of another request. TestPrivilegesNeverRequested shows that each of them is needed.
var neverRequestedByCore = map[right]string{
	// Where we make an object with an ownerReference that blocks the owner's deletion, by OwnerReferencesPermissionEnforcement.
	{"update", "apps.anupam.com", "helloapps/finalizers"}:                       "HelloApp",
	{"update", "immortalcontainers.flugel.it", "immortalcontainers/finalizers"}: "ImmortalContainer",
	{"update", "useless.container.training", "machines/finalizers"}:             "Machine",
	// Where a server-side apply, which is a patch, is about to make the object.
	{"create", "apps", "deployments"}: "HelloApp",
	{"create", "", "services"}:        "HelloApp",
}

// neverRequestedByActions likewise. TestActionSetNoRightToFinalizers shows that it is needed.
var neverRequestedByActions = map[right]string{toFinalizers: "ActionSet"}

// complaints about requests that were made with the rights: what was forbidden and, if all tests ran, what was granted in vain.
func (l *requestLog) complaints(granted []right, all bool) (complaints []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.forbidden {
		complaints = append(complaints, "the shipped roles do not allow what the operator needs: "+line)
	}
	if !all {
		return complaints
	}
	for _, r := range granted {
		if !l.used[r] && l.neverRequested[r] == "" {
			complaints = append(complaints, fmt.Sprintf("the shipped roles grant what no test has used: %s: remove its marker, or test what it is for", r))
		}
	}
	for r := range l.neverRequested {
		if !slices.Contains(granted, r) {
			complaints = append(complaints, fmt.Sprintf("an exception of these tests is about a right that is not granted: %s", r))
		}
	}
	return complaints
}

// judgePrivileges fails a run, also one that was well so far, whose operators had too few rights or too many.
func judgePrivileges(status int) int {
	all := status == 0 && allTestsRan()
	for d, log := range requests {
		shipped, err := shippedRights(d)
		if err != nil {
			fmt.Fprintln(os.Stderr, "privileges:", err)
			return 1
		}
		for _, complaint := range log.complaints(rightsOf(shipped.rules()), all) {
			fmt.Fprintf(os.Stderr, "privileges of %s: %s\n", d, complaint)
			status = 1
		}
	}
	return status
}

// allTestsRan tells whether no flag of go test has chosen some of them.
func allTestsRan() bool {
	for _, chooser := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(chooser).Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}
