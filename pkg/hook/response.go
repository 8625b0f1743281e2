// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package hook

import "time"

// Rules are what an answer is judged by.
type Rules struct {
	// Phase and Version are named in errors.
	Phase   string
	Version Version
	// Strict makes unknown and duplicate fields of the response itself an error. Else the last of duplicates counts.
	Strict bool
	// ParentNamespace is empty for a cluster-scoped parent.
	ParentNamespace string
	// Types that children may be of.
	Types []Type
	// Known is what is known of the answer before, nil if nothing is to be. It is updated, unless there is an error.
	Known *Known
}

// Rules returns those of the hook. What its parent allows is to be added.
func (h *Hook) Rules() Rules { return Rules{Phase: h.phase, Version: h.version, Strict: h.strict} }

// CompositeResponse is what a sync or finalize hook of a composite controller wants.
type CompositeResponse struct {
	// Status is the JSON object as it stands in the answer, nil where it is null or missing.
	Status []byte
	// Children are in the order of the answer. Recalled reports whether they are those of the answer before, with the same text.
	Children []Child
	Recalled bool
	// ResyncAfter is zero where the hook does not ask for it.
	ResyncAfter time.Duration
	Finalized   bool
	// Warnings are what is wrong with the answer, but tolerated.
	Warnings []string
}

// DecoratorResponse is what a sync or finalize hook of a decorator controller wants.
type DecoratorResponse struct {
	// Labels and Annotations to be set, sorted by key; those to be removed have Remove set.
	Labels, Annotations []Change
	Status              []byte
	Attachments         []Child
	ResyncAfter         time.Duration
	Finalized           bool
	Warnings            []string
}

// Change is what becomes of a label or annotation.
type Change struct {
	Key, Value string
	Remove     bool
}

// CustomizeResponse is what a customize hook wants to see.
type CustomizeResponse struct {
	// RelatedResources are the rules, as they stand in the answer: what selects what is not for this package to judge.
	RelatedResources [][]byte
	Warnings         []string
}

// maxResync is as good as never, and far from where times overflow.
const maxResync = 10 * 365 * 24 * time.Hour

// DecodeComposite reads and validates an answer. Nothing of it may be used where there is an error, which is an [*Error].
func DecodeComposite(body []byte, rules Rules) (*CompositeResponse, error) {
	var r CompositeResponse
	d := newDecoder(body, rules)
	err := d.response(func(key []byte) (err error) {
		switch string(key) {
		case "status":
			r.Status, err = d.status()
		case "children":
			r.Children, err = d.children()
		case "resyncAfterSeconds":
			r.ResyncAfter, err = d.resyncAfter()
		case "finalized":
			r.Finalized, err = d.boolean()
		default:
			err = d.unknown(key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Recalled, r.Warnings = d.recalled, d.warnings
	return &r, nil
}

// DecodeDecorator reads and validates an answer. Nothing of it may be used where there is an error, which is an [*Error].
func DecodeDecorator(body []byte, rules Rules) (*DecoratorResponse, error) {
	var r DecoratorResponse
	d := newDecoder(body, rules)
	err := d.response(func(key []byte) (err error) {
		switch string(key) {
		case "labels":
			r.Labels, err = d.changes()
		case "annotations":
			r.Annotations, err = d.changes()
		case "status":
			r.Status, err = d.status()
		case "attachments":
			r.Attachments, err = d.children()
		case "resyncAfterSeconds":
			r.ResyncAfter, err = d.resyncAfter()
		case "finalized":
			r.Finalized, err = d.boolean()
		default:
			err = d.unknown(key)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Warnings = d.warnings
	return &r, nil
}

// DecodeCustomize reads an answer. Nothing of it may be used where there is an error, which is an [*Error].
func DecodeCustomize(body []byte, rules Rules) (*CustomizeResponse, error) {
	var r CustomizeResponse
	d := newDecoder(body, rules)
	err := d.response(func(key []byte) (err error) {
		if string(key) != "relatedResources" {
			return d.unknown(key)
		}
		r.RelatedResources, err = d.objects()
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Warnings = d.warnings
	return &r, nil
}
