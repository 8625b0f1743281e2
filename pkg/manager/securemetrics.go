// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"millwright.dev/pkg/addresslimit"
	"millwright.dev/pkg/certs"
)

const (
	// reviewTimeout is the limit for one review by the API server, and reviewTTL is how long its answer is cached.
	reviewTimeout = 10 * time.Second
	reviewTTL     = time.Minute
	// maxFailures is how often the clients of one address may fail in a burst, and failureInterval is the time after which one failure no longer counts.
	maxFailures     = 10
	failureInterval = time.Second
	// reviewQPS and reviewBurst limit the reviews of a process, per second and in a burst.
	reviewQPS, reviewBurst = 10, 50
)

// reviewBackoff is for an API server that does not answer immediately. A scrape is over after some seconds anyway.
var reviewBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// SecureMetrics is how /metrics is served over HTTPS.
type SecureMetrics struct {
	// Address is host:port; "" to serve none.
	Address string
	// CertFile and KeyFile are PEM files, read again when they change. Without them the certificate is self-signed, and
	// made by each process.
	CertFile, KeyFile string
}

// delegated returns a handler that answers only clients that the API server authenticates (TokenReview) and authorizes for the verb
// and this path (SubjectAccessReview).
func delegated(client kubernetes.Interface, handler http.Handler) (http.Handler, error) {
	authentication, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:  client.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      &reviewBackoff,
		CacheTTL:                 reviewTTL,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up the authentication of clients of /metrics: %w", err)
	}
	authorization, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             reviewTTL,
		DenyCacheTTL:              reviewTTL,
		WebhookRetryBackoff:       &reviewBackoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up the authorization of clients of /metrics: %w", err)
	}
	return &delegatedHandler{addresslimit.NewFailures(maxFailures, failureInterval), authentication, authorization, handler}, nil
}

type delegatedHandler struct {
	limit          *addresslimit.Failures
	authentication authenticator.Request
	authorization  authorizer.Authorizer
	next           http.Handler
}

// ServeHTTP implements http.Handler.
func (h *delegatedHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	logger := klog.FromContext(req.Context())
	succeeded, ok := h.limit.Begin(addresslimit.Of(req.RemoteAddr), time.Now())
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too Many Requests: clients of your address have sent too many tokens that are not valid here, or may not get this path", http.StatusTooManyRequests)
		return
	}
	who, known, err := h.authentication.AuthenticateRequest(req)
	if err != nil {
		logger.V(2).Info("Failed to authenticate a client", "path", req.URL.Path, "err", err)
	}
	if err != nil || !known {
		http.Error(w, "Unauthorized: send the token of a ServiceAccount as Authorization: Bearer TOKEN", http.StatusUnauthorized)
		return
	}
	decision, reason, err := h.authorization.Authorize(req.Context(), authorizer.AttributesRecord{User: who.User, Verb: verbOf(req.Method), Path: req.URL.Path})
	switch {
	case decision == authorizer.DecisionAllow:
		succeeded()
		h.next.ServeHTTP(w, req)
	case err != nil:
		logger.Error(err, "Failed to authorize a client", "path", req.URL.Path)
		http.Error(w, "Internal Server Error: the API server did not answer whether you are authorized", http.StatusInternalServerError)
	default:
		logger.V(2).Info("Refused a client", "path", req.URL.Path, "user", who.User.GetName(), "reason", reason)
		http.Error(w, fmt.Sprintf("Forbidden: %s may not %s the nonResourceURL %s", who.User.GetName(), verbOf(req.Method), req.URL.Path), http.StatusForbidden)
	}
}

// verbOf is what RBAC calls an HTTP method on a path that is no resource.
func verbOf(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodHead:
		return "head"
	default:
		return "post"
	}
}

// certificate is the serving certificate of /metrics. It is reloaded while it runs if it comes from files.
type certificate struct {
	source  *certs.Source
	options SecureMetrics
	joined  sync.WaitGroup
}

// newCertificate reads the files, or creates a certificate for this host.
func newCertificate(options SecureMetrics) (*certificate, error) {
	c := &certificate{source: certs.NewSource("metrics"), options: options}
	if options.CertFile == "" {
		if err := c.selfSign(); err != nil {
			return nil, fmt.Errorf("creating a certificate for --metrics-address: %w", err)
		}
		return c, nil
	}
	if _, err := c.source.UpdateFromFiles(options.CertFile, options.KeyFile); err != nil {
		return nil, fmt.Errorf("using the certificate of --metrics-tls-cert-file and --metrics-tls-key-file: %w", err)
	}
	return c, nil
}

func (c *certificate) selfSign() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	certificate, key, err := certs.SelfSigned(certs.Names{host}, time.Now(), rand.Reader)
	if err != nil {
		return err
	}
	_, err = c.source.Update(certificate, key)
	return err
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: c.source.GetCertificate}
}

// start reloads the files until the context ends. join returns after that.
func (c *certificate) start(ctx context.Context) {
	if c.options.CertFile != "" {
		c.joined.Go(func() { c.source.RunFiles(ctx, c.options.CertFile, c.options.KeyFile) })
	}
}

func (c *certificate) join() { c.joined.Wait() }

// metricsServing serves /metrics over HTTPS.
type metricsServing struct {
	server      *server
	certificate *certificate
	handler     http.Handler
	stopFiles   context.CancelFunc
}

// newMetricsServing listens and reads the certificate. Without an address it returns nil, which serves nothing. The client is for
// TokenReviews and SubjectAccessReviews.
func newMetricsServing(ctx context.Context, options SecureMetrics, client func() (kubernetes.Interface, error), metrics http.Handler) (*metricsServing, error) {
	if options.Address == "" {
		return nil, nil
	}
	reviews, err := client()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", metrics)
	handler, err := delegated(reviews, mux)
	if err != nil {
		return nil, err
	}
	server, err := listen(ctx, "--metrics-address", options.Address)
	if err != nil {
		return nil, err
	}
	certificate, err := newCertificate(options)
	if err != nil {
		server.stop(ctx)
		return nil, err
	}
	return &metricsServing{server: server, certificate: certificate, handler: handler}, nil
}

func (m *metricsServing) start(ctx context.Context, fail func(error)) {
	if m == nil {
		return
	}
	m.watchFiles(ctx)
	m.server.start(ctx, "/metrics over HTTPS", m.handler, m.certificate.config(), fail)
}

func (m *metricsServing) watchFiles(ctx context.Context) {
	ctx, m.stopFiles = context.WithCancel(context.WithoutCancel(ctx))
	m.certificate.start(ctx)
}

// stop returns when nothing is served any more.
func (m *metricsServing) stop(ctx context.Context) {
	if m == nil {
		return
	}
	m.server.stop(ctx)
	if m.stopFiles != nil {
		m.stopFiles()
	}
	m.certificate.join()
}
