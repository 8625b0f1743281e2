// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package recordstore

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage"

	farmv1alpha "millwright.dev/pkg/apis/farm/v1alpha"
)

// managed is what the metadata of a Llama have that was applied, and of its record, apart from names.
const managed = `"creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"managedFields":[{"apiVersion":"farm.example.com/v1alpha","fieldsType":"FieldsV1",` +
	`"fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:breed":{}}},"f:spec":{".":{},"f:height":{},"f:weight":{}}},"manager":"kubectl","operation":"Apply","time":"2026-01-01T00:00:00Z"}],`

func applied(name string, resourceVersion int) string {
	record := recordOf(name, resourceVersion, llamaOf(name, 31.4))
	return strings.ReplaceAll(record, `"metadata":{`, `"metadata":{`+managed+`"labels":{"breed":"suri"},`)
}

// BenchmarkList is the cost of 5,000 Llamas apart from that of the API server of the records.
func BenchmarkList(b *testing.B) {
	const count = 5000
	body := bytes.NewBufferString(`{"apiVersion":"storage.farm.example.com/v1","items":[`)
	for i := range count {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(applied(fmt.Sprint("llama-", i), i+1))
	}
	body.WriteString(`],"kind":"LlamaRecordList","metadata":{"resourceVersion":"6000"}}`)
	store, _ := newServer(b, func(w http.ResponseWriter, _ *http.Request) { w.Write(body.Bytes()) })
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		list := &farmv1alpha.LlamaList{}
		if err := store.GetList(b.Context(), "/llamas", storage.ListOptions{Recursive: true}, list); err != nil || len(list.Items) != count {
			b.Fatal(len(list.Items), err)
		}
	}
}

// BenchmarkWatch is what an event costs each watch.
func BenchmarkWatch(b *testing.B) {
	line := []byte(event("MODIFIED", applied("dolly", 7)) + "\n")
	store, _ := newServer(b, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	w, err := store.Watch(b.Context(), "/llamas", storage.ListOptions{Recursive: true})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		<-w.ResultChan()
	}
	w.Stop()
	for range w.ResultChan() {
	}
}

// BenchmarkGet is the cost of a read apart from the request.
func BenchmarkGet(b *testing.B) {
	store, _ := newServer(b, answering(200, applied("dolly", 7)))
	b.ReportAllocs()
	for b.Loop() {
		if err := store.Get(b.Context(), "/llamas/default/dolly", storage.GetOptions{}, &farmv1alpha.Llama{}); err != nil {
			b.Fatal(err)
		}
	}
}
