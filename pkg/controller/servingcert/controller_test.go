// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	"millwright.dev/pkg/certs"
)

// made are the writes of a start with nothing there.
var made = []string{"create secrets", "create secrets", "patch apiservices"}

// expectMade compares the writes. Each change of one of the three objects may lead to a sync, which reads both Secrets.
func expectMade(t *testing.T, requests []string) {
	t.Helper()
	if diff := cmp.Diff(made, writes(requests)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if reads := len(requests) - len(made); reads > 2*(1+len(made)) {
		t.Errorf("%d Secrets are read: %q", reads, requests)
	}
}

func TestCertificateIsCreatedAndTrusted(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.start("")
		requests, events := a.took()
		expectMade(t, requests)
		want := []string{
			"Normal AuthorityCreated Created a certificate authority: there is no serving certificate",
			"Normal CertificateIssued Issued a certificate for Service millwright-system/farm-operator, valid until 2000-03-31T00:00:00Z: there is no serving certificate",
			"Normal CABundleInjected Its caBundle is that of Secret millwright-system/farm-operator-serving",
		}
		if diff := cmp.Diff(want, events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		a.must(a.verify(a.bundle()))
		if kind := a.kept().Serving.Type; kind != corev1.SecretTypeTLS {
			t.Errorf("the Secret is of type %s", kind)
		}
		watches := []string{
			"apiservices  millwright.dev/inject-ca=true",
			"secrets millwright-system metadata.name=farm-operator-ca",
			"secrets millwright-system metadata.name=farm-operator-serving",
		}
		if diff := cmp.Diff(watches, sorted(a.Watches())); diff != "" {
			t.Errorf("watches (-want +got):\n%s", diff)
		}
		if at, err := testutil.GetGaugeMetricValue(expiration); err != nil || at != float64(time.Now().Add(90*day).Unix()) {
			t.Errorf("the metric says that it expires at %v (%v)", at, err)
		}
		time.Sleep(day)
		if requests, events := a.took(); len(writes(requests)) > 0 || len(events) > 0 {
			t.Errorf("a day later there were %q and %q", requests, events)
		}
	}, ours())
}

func TestInsecureAPIServiceIsSwitched(t *testing.T) {
	insecure := ours()
	insecure.Object["spec"].(map[string]any)["insecureSkipTLSVerify"] = true
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.start(DefaultFarmNamespace)
		requests, _ := a.took()
		expectMade(t, requests)
		if spec := a.apiService(farm).Object["spec"].(map[string]any); spec["insecureSkipTLSVerify"] != false {
			t.Errorf("insecureSkipTLSVerify is %v", spec["insecureSkipTLSVerify"])
		}
		a.must(a.verify(a.bundle()))
	}, insecure)
}

func TestWhatDoesNotAskForItIsLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		apiService *unstructured.Unstructured
		namespace  string
	}{
		"an APIService without the label":           {apiService: unlabelled()},
		"an APIService of another Service":          {apiService: apiServiceNamed("v1.farm.example.com", "other")},
		"a process that works in another namespace": {apiService: ours(), namespace: "shop"},
		"a cluster where the farm is not installed": {apiService: apiServiceNamed("v1.example.com", "other")},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.start(tc.namespace)
				time.Sleep(30 * day)
				if requests, events := a.took(); len(requests) > 0 || len(events) > 0 {
					t.Errorf("there were %q and %q", requests, events)
				}
				if tc.namespace != "" && len(a.Watches()) > 0 {
					t.Errorf("it watches %q", a.Watches())
				}
			}, tc.apiService)
		})
	}
}

func TestForeignSecretIsAConflict(t *testing.T) {
	for _, name := range []types.NamespacedName{authority, serving} {
		t.Run(name.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.applySecret(foreign(name))
				a.start("")
				requests, events := a.took()
				if diff := cmp.Diff([]string{"get secrets", "get secrets"}, requests); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				want := []string{"Warning ErrResourceExists reading certificates from Secret " + name.String() + ": " + certs.ErrForeign.Error()}
				if diff := cmp.Diff(want, events); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				a.applyAPIService(a.apiService(farm)) // any change of it
				if _, events := a.took(); len(events) > 0 {
					t.Errorf("the conflict is reported again: %q", events)
				}
				if len(a.bundle()) > 0 {
					t.Error("the APIService has a bundle that was not made for it")
				}
				a.deleteSecret(name)
				a.took()
				a.must(a.verify(a.bundle()))
			}, ours())
		})
	}
}

func TestLoserOfARaceUsesWhatTheWinnerMade(t *testing.T) {
	conflict := apierrors.NewConflict(secrets.GroupResource(), authority.Name, errors.New("old version"))
	for request, lost := range map[string]error{
		"create secrets":    apierrors.NewAlreadyExists(secrets.GroupResource(), authority.Name),
		"patch apiservices": conflict,
		"update secrets":    conflict, // when it is renewed
	} {
		t.Run(request, func(t *testing.T) {
			inBubble(t, func(t *testing.T, a *apiServer) {
				a.Fail(request, lost)
				a.start("")
				time.Sleep(61 * day)
				requests, events := a.took()
				if a.Pending(request) > 0 {
					t.Errorf("nothing was lost: %q", requests)
				}
				if len(events) != 4 {
					t.Errorf("what was lost is reported, or what was done is not: %q", events)
				}
				if strings.Contains(a.logs(), "failed") {
					t.Errorf("a lost race is logged as a failure:\n%s", a.logs())
				}
				a.must(a.verify(a.bundle()))
				state, err := certs.Decode(a.kept())
				if err != nil || len(state.Authorities) != 1 {
					t.Errorf("%d authorities are trusted (%v)", len(state.Authorities), err)
				}
			}, ours())
		})
	}
}

func TestTwoProcessesEndWithOneCertificate(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.start("")
		a.start("")
		time.Sleep(day)
		a.took()
		a.must(a.verify(a.bundle()))
		state, err := certs.Decode(a.kept())
		if err != nil || len(state.Authorities) != 1 {
			t.Errorf("%d authorities are trusted (%v)", len(state.Authorities), err)
		}
	}, ours())
}

func TestDeletedSecretIsRevokedImmediately(t *testing.T) {
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.start("")
		a.took()
		before := a.bundle()
		a.deleteSecret(authority)
		a.took()
		a.must(a.verify(a.bundle()))
		if a.verify(before) == nil {
			t.Error("who trusted the authority of before trusts the certificate of now")
		}
	}, ours())
}

func TestRenewalWithoutWritableAPIService(t *testing.T) {
	second := apiServiceNamed("v2.farm.example.com", "farm-operator")
	inBubble(t, func(t *testing.T, a *apiServer) {
		a.lifetimes.Authority, a.lifetimes.Serving = a.lifetimes.Authority/100, a.lifetimes.Serving/100
		forbidden := apierrors.NewForbidden(APIServices.GroupResource(), farm, errors.New("no"))
		a.Fail("patch apiservices", slices.Repeat([]error{forbidden}, 5000)...)
		a.start("")
		synctest.Wait()
		first := a.kept().Serving.Data[corev1.TLSCertKey]
		a.must(a.verify(a.kept().Serving.Data[certs.DataBundle]))
		time.Sleep(61 * day / 100)
		synctest.Wait()
		if a.Pending("patch apiservices") == 0 {
			t.Error("an APIService was written")
		}
		if bytes.Equal(a.kept().Serving.Data[corev1.TLSCertKey], first) {
			t.Error("the certificate is the first one still")
		}
		a.must(a.verify(a.kept().Serving.Data[certs.DataBundle]))

		a.Fail("patch apiservices")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		a.must(a.verify(a.bundle()))
	}, ours(), second)
}
