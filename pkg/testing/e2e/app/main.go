// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

// Command app is the program that the end-to-end tests run in containers:
//
//	app serve VERSION            answers HTTP on port 8080 with its version and its Pod; /exit?code=N ends it
//	app get [--token FILE] URL   prints the status code of the answer, and its body
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(args[1])
	case len(args) > 1 && args[0] == "get":
		flags := flag.NewFlagSet("get", flag.ContinueOnError)
		token := flags.String("token", "", "file with a bearer token")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		return get(flags.Arg(0), *token)
	default:
		return fmt.Errorf("invalid arguments %q: must be serve VERSION or get [--token FILE] URL", args)
	}
}

func serve(version string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "version %s in %s\n", version, host)
	})
	mux.HandleFunc("GET /exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		fmt.Printf("exits with %d\n", code)
		os.Exit(code)
	})
	server := &http.Server{Addr: ":8080", Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("version %s serves in %s\n", version, host)
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return err
	}
	fmt.Println("stopped by a signal")
	return nil
}

func get(url, tokenFile string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if tokenFile != "" {
		token, err := os.ReadFile(tokenFile)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	// The only HTTPS endpoints are the metrics of Millwright, which have a self-signed certificate.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	fmt.Println(response.StatusCode)
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}
