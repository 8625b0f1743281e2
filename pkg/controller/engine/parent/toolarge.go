// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

//millwright:pure

package parent

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"

	"millwright.dev/pkg/apis/metacontroller/v1alpha1"
	"millwright.dev/pkg/controller"
	"millwright.dev/pkg/merge"
)

// tooLargeError is the error of a child or a status that is larger than the API server accepts. Only another answer of the hook helps, so it
// is sent once.
type tooLargeError struct{ text string }

func (e *tooLargeError) Error() string { return e.text }

// tooLarge returns a tooLargeError, for which alone the sync is not retried.
func tooLarge(text string) error { return controller.Permanent(&tooLargeError{text}) }

// refusal is the refusal of an object as too large: what was desired of which version, and the error.
type refusal struct {
	version
	text string
}

// asTooLarge returns a tooLargeError for the error of an object that is too large, and others as they are.
func asTooLarge(err error) error {
	if !controller.IsTooLarge(err) {
		return err
	}
	return tooLarge(err.Error() + ": the API server and etcd accept about 1.5 MiB for an object, so the hook has to return less")
}

// checkAnnotations returns a tooLargeError if the API server would refuse an object for the size of its annotations. The last-applied annotation
// among them is as large as what the hook desires.
func checkAnnotations(object map[string]any) error {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	total, record := 0, 0
	for key, value := range annotations {
		text, _ := value.(string)
		total += len(key) + len(text)
		if key == merge.LastAppliedAnnotation {
			record = len(text)
		}
	}
	if total <= validation.TotalAnnotationSizeLimitB {
		return nil
	}
	size := fmt.Sprintf("its annotations would have %d bytes, and the API server accepts %d: ", total, validation.TotalAnnotationSizeLimitB)
	if record == 0 {
		return tooLarge(size + "the hook has to return less")
	}
	return tooLarge(fmt.Sprintf("%s%d of them record what the hook desires of it, so the hook has to make several smaller objects of it; or the controller sets spec.applyStrategy to %s, which records only a hash",
		size, record, v1alpha1.ApplyServerSide))
}
