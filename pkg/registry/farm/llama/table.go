// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package llama

import (
	"context"
	"fmt"

	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"millwright.dev/pkg/apis/farm/v1alpha"
)

// table is how Llamas are printed.
type table struct{}

var _ rest.TableConvertor = table{}

var metadataDocs = metav1.ObjectMeta{}.SwaggerDoc()

var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: metadataDocs["name"]},
	{Name: "Weight", Type: "number", Format: "double", Description: "Weight in kilograms."},
	{Name: "Height", Type: "number", Format: "double", Description: "Height at the shoulder, in metres."},
	{Name: "Age", Type: "date", Description: metadataDocs["creationTimestamp"]},
}

// ConvertToTable makes a table of a Llama or of a list of them.
func (table) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	result := &metav1.Table{}
	if wanted, ok := options.(*metav1.TableOptions); !ok || !wanted.NoHeaders {
		result.ColumnDefinitions = columns
	}
	switch o := object.(type) {
	case *v1alpha.LlamaList:
		result.ResourceVersion, result.Continue, result.RemainingItemCount = o.ResourceVersion, o.Continue, o.RemainingItemCount
		result.Rows = make([]metav1.TableRow, 0, len(o.Items))
		for i := range o.Items {
			result.Rows = append(result.Rows, row(&o.Items[i]))
		}
	case *v1alpha.Llama:
		result.ResourceVersion = o.ResourceVersion
		result.Rows = []metav1.TableRow{row(o)}
	default:
		return nil, fmt.Errorf("making a table: %T is neither a Llama nor a list of Llamas", object)
	}
	return result, nil
}

// row shows numbers as numbers: the shortest form that reads back the same, which is what the user wrote.
func row(llama *v1alpha.Llama) metav1.TableRow {
	return metav1.TableRow{
		Cells:  []any{llama.Name, llama.Spec.Weight, llama.Spec.Height, metatable.ConvertToHumanReadableDateType(llama.CreationTimestamp)},
		Object: runtime.RawExtension{Object: llama},
	}
}
