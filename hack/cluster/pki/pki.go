// Package pki makes the keys and certificates of a control plane on one machine.
//
// Two certificate authorities and the key that signs ServiceAccount tokens are kept, so that copies of kubeconfigs and tokens
// stay valid after a restart. Every Load creates all certificates that they sign again, which is cheap: no certificate in use
// can be out of date, and a changed name or port needs no case of its own.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"millwright.dev/hack/cluster/statedir"
)

const (
	// certificateLifetime is how long a signed certificate is valid.
	certificateLifetime = 365 * 24 * time.Hour
	// authorityReserve is how long an authority has to be valid yet in order to be kept: longer than what it signs.
	authorityReserve = certificateLifetime + 24*time.Hour
	// certificateSuffix and keySuffix are added to the name of a certificate for its two files.
	certificateSuffix, keySuffix = ".crt", ".key"
	// clockSkew is how far in the past a certificate starts to be valid.
	clockSkew = time.Hour
)

// FrontProxyClient is the common name with which the aggregation layer authenticates to aggregated API servers.
const FrontProxyClient = "front-proxy-client"

// KubeletClient is the name of the certificate with which the API server authenticates to kubelets, and KubeletClientName its common name.
const (
	KubeletClient     = "apiserver-kubelet-client"
	KubeletClientName = "kube-" + KubeletClient
)

// PKI is a folder of keys and certificates.
type PKI struct {
	dir     string
	now     time.Time
	cluster *authority
}

// authority is a certificate authority with its key.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// Load creates what is missing in dir, which has to exist, keeps the rest, and signs new certificates. The API server's is for
// loopback, the names of the Service "kubernetes", and the given addresses.
func Load(dir string, now time.Time, addresses ...net.IP) (*PKI, error) {
	p := &PKI{dir: dir, now: now}
	cluster, err := p.authority("ca", "millwright-ca")
	if err != nil {
		return nil, err
	}
	p.cluster = cluster
	frontProxy, err := p.authority("front-proxy-ca", "millwright-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if _, _, err := keyutil.LoadOrGenerateKeyFile(p.ServiceAccountKey()); err != nil {
		return nil, fmt.Errorf("key of ServiceAccount tokens: %w", err)
	}
	for name, signed := range map[string]struct {
		by     *authority
		config certutil.Config
	}{
		"apiserver": {cluster, certutil.Config{
			CommonName: "kube-apiserver",
			AltNames: certutil.AltNames{
				DNSNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
				IPs:      append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...),
			},
			Usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		}},
		KubeletClient: {cluster, certutil.Config{
			CommonName:   KubeletClientName,
			Organization: []string{"system:masters"},
			Usages:       []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
		FrontProxyClient: {frontProxy, certutil.Config{
			CommonName: FrontProxyClient,
			Usages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}},
	} {
		if err := p.issue(signed.by, filepath.Join(dir, name), signed.config); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Issue signs a certificate by the authority of the cluster and writes it and its key into the files path.crt and path.key.
func (p *PKI) Issue(path string, config certutil.Config) error {
	return p.issue(p.cluster, path, config)
}

func (p *PKI) issue(by *authority, path string, config certutil.Config) error {
	certificate, key, err := by.sign(config, p.now)
	if err == nil {
		err = write(path, certificate, key)
	}
	if err != nil {
		return fmt.Errorf("certificate %s: %w", filepath.Base(path), err)
	}
	return nil
}

// Certificate is the path of the certificate of that name: ca, front-proxy-ca, apiserver, KubeletClient or FrontProxyClient.
func (p *PKI) Certificate(name string) string { return filepath.Join(p.dir, name+certificateSuffix) }

// Key is the path of the key that belongs to Certificate.
func (p *PKI) Key(name string) string { return filepath.Join(p.dir, name+keySuffix) }

// ServiceAccountKey is the path of the key that signs ServiceAccount tokens. The public key is read from it too.
func (p *PKI) ServiceAccountKey() string { return filepath.Join(p.dir, "service-accounts.key") }

// authority loads an authority, or makes one when there is none or the one that is there ends too soon.
func (p *PKI) authority(name, commonName string) (*authority, error) {
	// The certificate is written last: without it there is nothing to keep.
	if _, err := os.Stat(p.Certificate(name)); !errors.Is(err, fs.ErrNotExist) {
		a, err := p.load(name)
		if err != nil {
			return nil, fmt.Errorf("certificate authority %s: %w (to create a new one, remove %s; copies of kubeconfigs are then no longer valid)", name, err, p.dir)
		}
		if a.certificate.NotAfter.Sub(p.now) > authorityReserve {
			return a, nil
		}
	}
	a, err := newAuthority(commonName, p.now)
	if err == nil {
		err = write(filepath.Join(p.dir, name), a.certificate, a.key)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority %s: %w", name, err)
	}
	return a, nil
}

func newAuthority(commonName string, now time.Time) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	certificate, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: commonName, NotBefore: now.Add(-clockSkew)}, key)
	if err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key}, nil
}

func (p *PKI) load(name string) (*authority, error) {
	certificates, err := certutil.CertsFromFile(p.Certificate(name))
	if err != nil {
		return nil, err
	}
	key, err := keyutil.PrivateKeyFromFile(p.Key(name))
	if err != nil {
		return nil, err
	}
	signer, ok := key.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(certificates[0].PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", p.Key(name), p.Certificate(name))
	}
	return &authority{certificate: certificates[0], key: signer}, nil
}

// write writes the key first: a certificate that is there has its key.
func write(path string, certificate *x509.Certificate, key crypto.Signer) error {
	certificatePEM, keyPEM, err := encode(certificate, key)
	if err != nil {
		return err
	}
	if err := statedir.WriteFile(path+keySuffix, keyPEM); err != nil {
		return err
	}
	return statedir.WriteFile(path+certificateSuffix, certificatePEM)
}

// sign makes a key and a certificate for it.
func (a *authority) sign(config certutil.Config, now time.Time) (*x509.Certificate, crypto.Signer, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial.Add(serial, big.NewInt(1)),
		Subject:      pkix.Name{CommonName: config.CommonName, Organization: config.Organization},
		DNSNames:     config.AltNames.DNSNames,
		IPAddresses:  config.AltNames.IPs,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(certificateLifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  config.Usages,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func encode(certificate *x509.Certificate, key crypto.Signer) (certificatePEM, keyPEM []byte, err error) {
	certificatePEM, err = certutil.EncodeCertificates(certificate)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return certificatePEM, keyPEM, err
}
