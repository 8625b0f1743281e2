// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
)

// podSuffix is what the name of a Pod has more than that of its ImmortalContainer.
const podSuffix = "-immortalpod"

// objectOf tells which object of ours a request is about, "" if it is about none or many. sent and answered are the
// metadata of what was sent and of what was answered, as far as there are any.
func objectOf(info *request.RequestInfo, sent, answered metav1.Object) string {
	name := info.Name
	if name == "" && info.Verb == "create" {
		name = sent.GetName()
	}
	switch info.Resource {
	case "immortalcontainers", "machines", "helloapps", "parents", "actionsets":
		return name
	case "deployments", "services": // which are named after their HelloApp
		return name
	case "pods":
		return strings.TrimSuffix(name, podSuffix)
	case "events":
		// The recorder names an event after its object and the time.
		return name[:max(0, strings.LastIndexByte(name, '.'))]
	case "switches", "configmaps", "secrets":
		for _, object := range []metav1.Object{sent, answered} {
			if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
				return owner.Name
			}
		}
		if info.Resource == "configmaps" {
			// Those of an ActionSet, which belong to nobody, are named after it.
			return name[:max(0, strings.LastIndexByte(name, '-'))]
		}
	}
	return ""
}

// protobufPrefix is what Kubernetes's protobuf begins with.
var protobufPrefix = []byte("k8s\x00")

// metadataOf what was sent or answered. It is empty where that is no object.
func metadataOf(body []byte) (metav1.Object, error) {
	metadata := &metav1.PartialObjectMetadata{}
	switch {
	case len(body) == 0:
		return metadata, nil
	case !bytes.HasPrefix(body, protobufPrefix):
		if err := json.Unmarshal(body, metadata); err != nil {
			return nil, err
		}
		return metadata, nil
	}
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	if object, err := meta.Accessor(obj); err == nil {
		return object, nil
	}
	return metadata, nil // a list, or the status of what was refused
}

// IdentityOf the object in an answer.
func IdentityOf(answer []byte) (Identity, error) {
	metadata, err := metadataOf(answer)
	if err != nil {
		return Identity{}, err
	}
	return Identity{UID: metadata.GetUID(), ResourceVersion: metadata.GetResourceVersion()}, nil
}

// tell fills in what the request was about, and what it was answered with.
func (r *Request) tell(info *request.RequestInfo, answer []byte) error {
	sent, err := metadataOf(r.Body)
	if err != nil {
		return fmt.Errorf("reading what was sent to %s: %w", r.Kind(), err)
	}
	answered, err := metadataOf(answer)
	if err != nil {
		return fmt.Errorf("reading the answer to %s: %w", r.Kind(), err)
	}
	r.Object = objectOf(info, sent, answered)
	if name := cmp.Or(info.Name, sent.GetName()); name != "" {
		r.target = info.Resource + "/" + name
	}
	if r.Code < http.StatusMultipleChoices {
		r.Answer = Identity{UID: answered.GetUID(), ResourceVersion: answered.GetResourceVersion()}
	}
	return nil
}
