// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"millwright.dev/hack/bench/traffic"
	"millwright.dev/pkg/apis/useless/v1alpha1"
)

// What the requests of a flip are for. The first four make it.
const (
	forStamp   = "stamps"
	forReserve = "reservations"
	forFlip    = "patches"
	forClose   = "closings"
	forShow    = "statuses that show what is up"
	forClear   = "clears of seenAt"
	forEvents  = "events"
)

// purposesOf counts recorded requests by what they are for; what belongs to no flip is counted as what it is.
func purposesOf(requests []traffic.Request) (map[string]int, error) {
	purposes := map[string]int{}
	reserved := map[string]bool{} // by Machine
	for _, r := range requests {
		purpose, err := purposeOf(r, reserved)
		if err != nil {
			return nil, fmt.Errorf("reading the recorded request %s of %s: %w", r.Kind(), r.Object, err)
		}
		purposes[purpose]++
	}
	return purposes, nil
}

func purposeOf(r traffic.Request, reserved map[string]bool) (string, error) {
	if r.Code >= http.StatusMultipleChoices {
		return "refused " + r.Kind(), nil
	}
	switch r.Kind() {
	case "patch switches":
		return forFlip, nil
	case "update switches/status":
		sw := &v1alpha1.Switch{}
		if err := json.Unmarshal(r.Body, sw); err != nil {
			return "", err
		}
		if sw.Status.SeenAt == nil {
			return forClear, nil
		}
		return forStamp, nil
	case "update machines/status":
		machine := &v1alpha1.Machine{}
		if err := json.Unmarshal(r.Body, machine); err != nil {
			return "", err
		}
		before, now := reserved[r.Object], machine.Status.Flip != nil
		reserved[r.Object] = now
		switch {
		case now && !before:
			return forReserve, nil
		case before && !now:
			return forClose, nil
		}
		return forShow, nil
	}
	if strings.HasSuffix(r.Kind(), " events") {
		return forEvents, nil
	}
	return r.Kind(), nil
}
