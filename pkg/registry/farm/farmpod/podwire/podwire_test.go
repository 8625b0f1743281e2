// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package podwire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// TestAPodIsReadAsOneThatIsDecodedWhole compares with what client-go decodes, for Pods of which every field may be set.
func TestAPodIsReadAsOneThatIsDecodedWhole(t *testing.T) {
	want := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: ptr.To(int64(3))}, Items: randomPods(1, 50)}
	data := encode(t, protobuf(t).Serializer, want)
	decoded, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), data)
	if err != nil {
		t.Fatal(err)
	}
	want = decoded.(*corev1.PodList)
	var got []*corev1.Pod
	// In pieces as small as can be, so that each boundary lies between two reads somewhere.
	metadata, err := ReadList(iotest.OneByteReader(bytes.NewReader(data)), func(pod *corev1.Pod) { got = append(got, pod.DeepCopy()) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.ListMeta, metadata); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if len(got) != len(want.Items) {
		t.Fatalf("%d Pods, want %d", len(got), len(want.Items))
	}
	for i := range got {
		if diff := cmp.Diff(known(&want.Items[i]), got[i], cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("Pod %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestEventsOfAWatchAreReadAsTheyAreSent(t *testing.T) {
	pods := randomPods(2, 3)
	expired := apierrors.NewResourceExpired("too old").ErrStatus
	expired.Details = &metav1.StatusDetails{RetryAfterSeconds: 3}
	events := []watch.Event{
		{Type: watch.Added, Object: &pods[0]},
		{Type: watch.Bookmark, Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}},
		{Type: watch.Modified, Object: &pods[1]},
		{Type: watch.Deleted, Object: &pods[2]},
		{Type: watch.Error, Object: &expired},
	}
	stream := NewEvents(iotest.OneByteReader(bytes.NewReader(encodeEvents(t, events...))))
	for _, want := range events {
		var shown watch.EventType
		got, err := stream.Next(func(event watch.EventType, pod *corev1.Pod) runtime.Object {
			shown = event
			return pod.DeepCopy()
		})
		if err != nil {
			t.Fatal(err)
		}
		if pod, ok := want.Object.(*corev1.Pod); ok {
			data, err := pod.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			decoded := &corev1.Pod{}
			if err := decoded.Unmarshal(data); err != nil {
				t.Fatal(err)
			}
			want.Object = known(decoded)
			if shown != want.Type {
				t.Errorf("the Pod was shown as %s, want %s", shown, want.Type)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(metav1.Status{}, "TypeMeta")); diff != "" {
			t.Fatalf("event (-want +got):\n%s", diff)
		}
	}
	if _, err := stream.Next(nil); err != ErrEnd {
		t.Errorf("after the last event: %v", err)
	}
}

func TestNothingOfAPodIsLeftInTheNextOne(t *testing.T) {
	full := &corev1.PodList{Items: randomPods(3, 20)}
	full.Items = append(full.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}})
	var last *corev1.Pod
	if _, err := ReadList(bytes.NewReader(encode(t, protobuf(t).Serializer, full)), func(pod *corev1.Pod) { last = pod.DeepCopy() }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, last, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the last Pod (-want +got):\n%s", diff)
	}
}

// TestAListThatIsCutIsNoShorterList cuts it at each byte: what is missing is never taken for what is not there.
func TestAListThatIsCutIsNoShorterList(t *testing.T) {
	// Of each Pod only what is read: others are too large to be cut so often.
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	for _, pod := range randomPods(4, 2) {
		list.Items = append(list.Items, *known(&pod))
	}
	data := encode(t, protobuf(t).Serializer, list)
	// The last fields of the envelope are two empty ones, without which it is as good.
	for size := range len(data) - 4 {
		if _, err := ReadList(bytes.NewReader(data[:size]), func(*corev1.Pod) {}); err == nil {
			t.Fatalf("%d of %d bytes are a list", size, len(data))
		}
	}
}

func TestWhatIsNoListOfPodsIsNotTakenForOne(t *testing.T) {
	for name, data := range map[string][]byte{
		"another list":   encode(t, protobuf(t).Serializer, &corev1.NodeList{}),
		"a Status":       encode(t, protobuf(t).Serializer, &metav1.Status{}),
		"JSON":           []byte(`{"kind":"PodList","apiVersion":"v1"}`),
		"nothing":        nil,
		"a field of 4GB": append(bytes.Clone(magic), 0x12, 0xff, 0xff, 0xff, 0xff, 0x0f),
		"a number":       append(bytes.Clone(magic), 0x10, 1),
	} {
		if _, err := ReadList(bytes.NewReader(data), func(*corev1.Pod) {}); err == nil || !strings.HasPrefix(err.Error(), "reading a list of Pods: ") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestConnectionErrorIsReported(t *testing.T) {
	data := encode(t, protobuf(t).Serializer, &corev1.PodList{Items: randomPods(5, 2)})
	broken := io.MultiReader(bytes.NewReader(data[:len(data)/2]), iotest.ErrReader(io.ErrClosedPipe))
	if _, err := ReadList(broken, func(*corev1.Pod) {}); err == nil || !strings.Contains(err.Error(), io.ErrClosedPipe.Error()) {
		t.Errorf("error is %v", err)
	}
}

func TestAWatchThatIsCutHasEnded(t *testing.T) {
	data := encodeEvents(t, watch.Event{Type: watch.Added, Object: &corev1.Pod{}})
	for size := range data {
		if _, err := NewEvents(bytes.NewReader(data[:size])).Next(nil); err != ErrEnd {
			t.Fatalf("of %d of %d bytes: %v", size, len(data), err)
		}
	}
}

func TestAnEventThatIsNoneIsAnError(t *testing.T) {
	show := func(watch.EventType, *corev1.Pod) runtime.Object {
		t.Error("a Pod was shown")
		return nil
	}
	for name, data := range map[string][]byte{
		"a type that there is not":        encodeEvents(t, watch.Event{Type: "STRANGE", Object: &corev1.Pod{}}),
		"another object":                  encodeEvents(t, watch.Event{Type: watch.Added, Object: &corev1.Node{}}),
		"a Status that is added":          encodeEvents(t, watch.Event{Type: watch.Added, Object: &metav1.Status{}}),
		"an error that is about a Pod":    encodeEvents(t, watch.Event{Type: watch.Error, Object: &corev1.Pod{}}),
		"bytes that mean nothing":         {0, 0, 0, 3, 'x', 'y', 'z'},
		"an event without an object":      {0, 0, 0, 0},
		"more bytes than any event takes": {0xff, 0xff, 0xff, 0xff},
	} {
		if event, err := NewEvents(bytes.NewReader(data)).Next(show); err == nil || err == ErrEnd {
			t.Errorf("%s: event is %v, error is %v", name, event, err)
		}
	}
}

func TestEventWithoutObject(t *testing.T) {
	if _, err := NewEvents(bytes.NewReader([]byte{0, 0, 0, 0})).Next(nil); !errors.Is(err, errNotProtobuf) {
		t.Errorf("error is %v", err)
	}
}

func FuzzAnythingIsReadOrRefused(f *testing.F) {
	f.Add(encode(f, protobuf(f).Serializer, &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: randomPods(6, 2)}))
	f.Add(encodeEvents(f, watch.Event{Type: watch.Added, Object: &randomPods(7, 1)[0]}))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ReadList(bytes.NewReader(data), func(*corev1.Pod) {})
		_, _ = NewEvents(bytes.NewReader(data)).Next(func(watch.EventType, *corev1.Pod) runtime.Object { return nil })
	})
}
