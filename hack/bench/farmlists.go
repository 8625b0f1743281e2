// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
)

const (
	acceptJSON     = "application/json"
	acceptProtobuf = "application/vnd.kubernetes.protobuf"
	// acceptTable and tablePage are kubectl's.
	acceptTable = "application/json;as=Table;v=v1;g=meta.k8s.io"
	tablePage   = 500
	// listsPerRepetition is how often each list is read: it takes less than a second.
	listsPerRepetition = 5
)

// listing is one way to read all objects of a resource.
type listing struct {
	path, accept string
	page         int // how many at a time; 0 for all
}

// listContest is a list of ours and the list that it is compared with, in turn.
type listContest struct {
	name            string
	ours, theirs    listing
	took, theirTook []float64 // seconds, side by side
	size, theirSize int       // bytes as they are before they are packed
}

// podLists are the ways in which somebody may read Pods, and would read FarmPods.
func podLists(namespace string) []*listContest {
	farmPods, pods := farmPath+"/namespaces/"+namespace+"/farmpods", "/api/v1/namespaces/"+namespace+"/pods"
	return []*listContest{
		{name: "list of %d FarmPods as by kubectl get, over Pods", ours: listing{farmPods, acceptTable, tablePage}, theirs: listing{pods, acceptTable, tablePage}},
		{name: "list of %d FarmPods as JSON, over Pods", ours: listing{farmPods, acceptJSON, 0}, theirs: listing{pods, acceptJSON, 0}},
		{name: "list of %d FarmPods as JSON, over Pods as protobuf", ours: listing{farmPods, acceptJSON, 0}, theirs: listing{pods, acceptProtobuf, 0}},
	}
}

func llamaList(llamas, records string) *listContest {
	return &listContest{
		name: "list of %d Llamas, over LlamaRecords",
		ours: listing{farmPath + "/namespaces/" + llamas + "/llamas", acceptJSON, 0}, theirs: listing{recordsPath + "/namespaces/" + records + "/llamarecords", acceptJSON, 0},
	}
}

func (b *bench) holdLists(ctx context.Context, lists ...*listContest) error {
	client, err := rest.HTTPClientFor(b.config)
	if err != nil {
		return err
	}
	for _, l := range lists {
		for i := range b.repetitions * listsPerRepetition {
			turns := []func() error{
				func() (err error) { return read(ctx, b.config.Host, client, l.ours, &l.took, &l.size) },
				func() (err error) { return read(ctx, b.config.Host, client, l.theirs, &l.theirTook, &l.theirSize) },
			}
			for k := range turns {
				if err := turns[(i+k)%len(turns)](); err != nil {
					return err
				}
			}
		}
		b.say(l.name+": %.0f ms, %.0f ms", b.farmObjects, milli*middle(l.took), milli*middle(l.theirTook))
	}
	return nil
}

// continued is the token in the metadata of a list, which come before the items.
var continued = regexp.MustCompile(`^[^\[]*"continue":"([^"]+)"`)

// read reads a list and throws it away.
func read(ctx context.Context, host string, client *http.Client, l listing, took *[]float64, size *int) error {
	begin, token := time.Now(), ""
	*size = 0
	for {
		body, err := get(ctx, host, client, l, token)
		if err != nil {
			return err
		}
		*size += len(body)
		match := continued.FindSubmatch(body[:min(len(body), 4<<10)])
		if match == nil {
			*took = append(*took, time.Since(begin).Seconds())
			return nil
		}
		token = string(match[1])
	}
}

func get(ctx context.Context, host string, client *http.Client, l listing, token string) ([]byte, error) {
	query := url.Values{}
	if l.page > 0 {
		query.Set("limit", strconv.Itoa(l.page))
	}
	if token != "" {
		query.Set("continue", token)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, host+l.path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", l.accept)
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, response.Body); err != nil {
		return nil, fmt.Errorf("reading the list %s: %w", l.path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s: %s", request.URL, response.Status, body.Bytes()[:min(body.Len(), 1<<10)])
	}
	return body.Bytes(), nil
}
