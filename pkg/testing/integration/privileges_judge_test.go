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

// requests has the requests of each account in all clusters of this run, from the audit logs.
var requests = map[deployment]*requestLog{
	core: {neverRequested: neverRequestedByCore}, engine: {}, actions: {neverRequested: neverRequestedByActions}, farmOperator: {},
}

// requestLog keeps which rights were used and which requests were forbidden.
type requestLog struct {
	mu        sync.Mutex
	used      map[right]bool
	forbidden []string // requests that the authorizer refused, a line each
	// mayBeForbidden are resources whose requests may be forbidden.
	mayBeForbidden map[schema.GroupResource]bool
	// mayBeForbiddenIn are namespaces whose requests may be forbidden.
	mayBeForbiddenIn map[string]bool
	// neverRequested are rights that no request needs by itself.
	neverRequested map[right]string
}

// expectForbidden allows forbidden requests for a resource. Tests of a missing right call it.
func (l *requestLog) expectForbidden(resource schema.GroupResource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mayBeForbidden == nil {
		l.mayBeForbidden = map[schema.GroupResource]bool{}
	}
	l.mayBeForbidden[resource] = true
}

// expectForbiddenIn allows forbidden requests in a namespace. Tests that delete a namespace call it: its RoleBindings can go before its other objects.
func (l *requestLog) expectForbiddenIn(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mayBeForbiddenIn == nil {
		l.mayBeForbiddenIn = map[string]bool{}
	}
	l.mayBeForbiddenIn[namespace] = true
}

func (l *requestLog) add(event *auditv1.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Admission may refuse a request that the authorizer has allowed. That is no missing right.
	if event.Annotations["authorization.k8s.io/decision"] == "forbid" && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusForbidden {
		of := event.ObjectRef
		if of != nil && (l.mayBeForbidden[schema.GroupResource{Group: of.APIGroup, Resource: of.Resource}] || l.mayBeForbiddenIn[of.Namespace]) {
			return
		}
		if line := forbiddenLine(event); !slices.Contains(l.forbidden, line) { // the request is retried
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

// rightFor returns the right that a request for a resource needs.
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

// neverRequestedByCore has the rights that no request of the core needs by itself, with the kind that needs them: the API server checks them
// while it handles another request. TestPrivilegesNeverRequested shows that each of them is needed.
var neverRequestedByCore = map[right]string{
	// OwnerReferencesPermissionEnforcement checks these when an object is created with an owner reference that blocks the owner's deletion.
	{"update", "apps.anupam.com", "helloapps/finalizers"}:                       "HelloApp",
	{"update", "immortalcontainers.flugel.it", "immortalcontainers/finalizers"}: "ImmortalContainer",
	{"update", "useless.container.training", "machines/finalizers"}:             "Machine",
	// A server-side apply, which is a patch, needs these if it creates the object.
	{"create", "apps", "deployments"}: "HelloApp",
	{"create", "", "services"}:        "HelloApp",
}

// neverRequestedByActions has those of the ActionSet operator. TestActionSetNoRightToFinalizers shows that it is needed.
var neverRequestedByActions = map[right]string{toFinalizers: "ActionSet"}

// complaints returns which requests were forbidden and, if all tests ran, which rights are granted but not used.
func (l *requestLog) complaints(granted []right, all bool) (complaints []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.forbidden {
		complaints = append(complaints, "the shipped roles lack a right that the operator needs: "+line)
	}
	if !all {
		return complaints
	}
	for _, r := range granted {
		if !l.used[r] && l.neverRequested[r] == "" {
			complaints = append(complaints, fmt.Sprintf("the shipped roles grant a right that no test has used: %s: remove its marker, or add a test that needs it", r))
		}
	}
	for r := range l.neverRequested {
		if !slices.Contains(granted, r) {
			complaints = append(complaints, fmt.Sprintf("an exception of these tests names a right that is not granted: %s", r))
		}
	}
	return complaints
}

// judgePrivileges fails a run whose operators had too few rights or too many, even if all its tests have passed. It complains of rights that were not used
// also after a failed test, which may be the one that needs them: a test that fails by chance does not hide them.
func judgePrivileges(status int) int {
	all := allTestsRan()
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

// allTestsRan reports whether no flag of go test has selected tests.
func allTestsRan() bool {
	for _, chooser := range []string{"test.run", "test.skip", "test.list"} {
		if flag.Lookup(chooser).Value.String() != "" {
			return false
		}
	}
	return !testing.Short()
}
