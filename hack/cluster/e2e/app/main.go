// Command app is what the tests of the real node run in Pods.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	switch command {
	case "serve": // [FOLDER with tls.crt and tls.key]
		return serve(args)
	case "look": // NAMESPACE SERVICE
		return look(args[0], args[1])
	case "say": // TEXT
		fmt.Println(args[0])
		return nil
	case "sleep":
		time.Sleep(24 * time.Hour)
		return nil
	case "fail": // TEXT
		return errors.New(args[0])
	default:
		return fmt.Errorf("unknown command %q", command)
	}
}

// serve answers "hello from HOST" at port 8080 and, with a certificate, is an admission webhook and an aggregated API server at
// 8443.
func serve(args []string) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	fmt.Println("serving")
	ended := make(chan error)
	go func() {
		ended <- http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, "hello from %s", host)
		}))
	}()
	if len(args) > 0 {
		go func() { ended <- http.ListenAndServeTLS(":8443", args[0]+"/tls.crt", args[0]+"/tls.key", extension()) }()
	}
	return <-ended
}

// look looks at the cluster as a Pod sees it.
func look(namespace, service string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	found, err := client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("API server %s, Pods listed: %t\n", config.Host, len(pods.Items) > 0)

	for _, name := range []string{service, service + "." + namespace, service + "." + namespace + ".svc.cluster.local"} {
		addresses, err := net.DefaultResolver.LookupHost(ctx, name)
		if err != nil {
			return err
		}
		fmt.Printf("%s is its ClusterIP: %t\n", name, len(addresses) == 1 && addresses[0] == found.Spec.ClusterIP)
	}
	_, err = net.DefaultResolver.LookupHost(ctx, "example.com")
	if missing, ok := err.(*net.DNSError); !ok || !missing.IsNotFound {
		return fmt.Errorf("looking up a name outside: %v", err)
	}
	for what, host := range map[string]string{"ClusterIP": found.Spec.ClusterIP, "name": service + "." + namespace} {
		answer, err := get(ctx, "http://"+host)
		if err != nil {
			return err
		}
		fmt.Printf("by %s: %s\n", what, answer)
	}
	return nil
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}
