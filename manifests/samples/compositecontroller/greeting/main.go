// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command greeting is the hook of controller.yaml, as hook.py is, for a machine without Python: for each Greeting, as many Pods as spec.times,
// which greet spec.who. It listens on 127.0.0.1, by default on any port that is free.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
)

// greeting is a parent.
type greeting struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Who   string `json:"who"`
		Times *int   `json:"times"`
	} `json:"spec"`
}

type request struct {
	Parent   greeting `json:"parent"`
	Children struct {
		Pods map[string]json.RawMessage `json:"Pod.v1"`
	} `json:"children"`
}

type answer struct {
	Status   status                               `json:"status"`
	Children []*applycorev1.PodApplyConfiguration `json:"children"`
}

type status struct {
	Pods int `json:"pods"`
}

func main() {
	port := flag.Int("port", 0, "port of 127.0.0.1; 0 is any that is free")
	flag.Parse()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Listening on", listener.Addr())
	server := &http.Server{Handler: http.HandlerFunc(serve), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.Serve(listener))
}

func serve(w http.ResponseWriter, r *http.Request) {
	var got request
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(sync(&got)); err != nil {
		log.Print(err)
	}
}

func sync(got *request) answer {
	who, times := "World", 1
	if got.Parent.Spec.Who != "" {
		who = got.Parent.Spec.Who
	}
	if got.Parent.Spec.Times != nil {
		times = *got.Parent.Spec.Times
	}
	wanted := answer{Status: status{Pods: len(got.Children.Pods)}, Children: []*applycorev1.PodApplyConfiguration{}}
	for i := range times {
		wanted.Children = append(wanted.Children, pod(fmt.Sprintf("%s-%d", got.Parent.Metadata.Name, i), fmt.Sprintf("Hello, %s!", who)))
	}
	return wanted
}

// pod is an apply configuration: unlike a Pod, it has only the fields that are set.
func pod(name, text string) *applycorev1.PodApplyConfiguration {
	container := applycorev1.Container().WithName("greeting").WithImage("busybox:1").WithCommand("sh", "-c", fmt.Sprintf("echo '%s'; sleep infinity", text))
	// What the Pod prints on a simulated node, which runs no containers.
	printed := map[string]string{"simulated.millwright.dev/log": text + "\n"}
	return applycorev1.Pod(name, "").WithAnnotations(printed).WithSpec(applycorev1.PodSpec().WithContainers(container))
}
