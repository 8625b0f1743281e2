// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package llama

import (
	"fmt"
	"math"

	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"millwright.dev/pkg/apis/farm/v1alpha"
)

const (
	maxWeight = 1000 // kilograms
	maxHeight = 10   // metres
)

// validate returns what is wrong with a Llama, each fault with its field.
func validate(llama *v1alpha.Llama) field.ErrorList {
	errs := apimachineryvalidation.ValidateObjectMeta(&llama.ObjectMeta, true, apimachineryvalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	spec := field.NewPath("spec")
	errs = append(errs, validateMeasure(spec.Child("weight"), llama.Spec.Weight, maxWeight, "kilograms")...)
	return append(errs, validateMeasure(spec.Child("height"), llama.Spec.Height, maxHeight, "metres")...)
}

func validateMeasure(path *field.Path, value, most float64, unit string) field.ErrorList {
	// NaN is neither more nor less than anything.
	if math.IsNaN(value) || value <= 0 || value > most {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be more than 0 and at most %g %s", most, unit))}
	}
	return nil
}
