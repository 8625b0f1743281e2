//go:build linux

package netns

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProxiesAreLeftOut(t *testing.T) {
	got := withoutProxies([]string{"PATH=/bin", "HTTPS_PROXY=http://proxy", "no_proxy=localhost", "PROXY=kept", "EMPTY="})
	if diff := cmp.Diff([]string{"PATH=/bin", "PROXY=kept", "EMPTY="}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestAProcessThatHasNotEnteredInheritsNothing(t *testing.T) {
	if listener, err := Inherited(); listener != nil || err != nil {
		t.Errorf("got %v, %v", listener, err)
	}
}
