package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// client is the kubelet's way to the API server: with the bootstrap token until there is a certificate.
type client struct {
	api       kubernetes.Interface
	bootstrap kubernetes.Interface
	cert      atomic.Pointer[tls.Certificate]
	transport []*http.Transport
}

func (c *client) closeIdle() {
	for _, t := range c.transport {
		t.CloseIdleConnections()
	}
}

func (c *client) close() { c.closeIdle() }

// kubeconfig is the part of a kubeconfig that the light kubelet uses.
type kubeconfig struct {
	server    string
	ca        []byte
	token     string
	tokenFile string
	certFile  string
}

// connect decides as bootstrap.LoadClientConfig of the kubelet does: a kubeconfig whose certificate is still valid is used as it
// is; otherwise the bootstrap kubeconfig must be there, and the kubeconfig is written from it.
func (k *kubelet) connect() (*client, error) {
	store := certStore{k: k, pair: "kubelet-client"}
	user, err := k.readKubeconfig(k.kubeconfig)
	if err == nil && user.certFile != "" && k.validCert(user.certFile) {
		return k.newClient(user, kubeconfig{})
	}
	if k.bootstrap == "" {
		return nil, errNoCredentials
	}
	boot, err := k.readKubeconfig(k.bootstrap)
	if err != nil {
		return nil, fmt.Errorf("unable to load bootstrap kubeconfig: %w", err)
	}
	if boot.token == "" {
		return nil, fmt.Errorf("bootstrap kubeconfig %s has no token", k.bootstrap)
	}
	if err := k.writeKubeconfig(boot, store.currentPath()); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig: %w", err)
	}
	return k.newClient(kubeconfig{server: boot.server, ca: boot.ca}, boot)
}

func (k *kubelet) validCert(path string) bool {
	data, err := readFile(k.s, path)
	if err != nil {
		return false
	}
	pair, err := parsePair(data, data)
	return err == nil && time.Now().Before(pair.Leaf.NotAfter)
}

func (k *kubelet) readKubeconfig(path string) (kubeconfig, error) {
	var out kubeconfig
	if path == "" {
		return out, fs.ErrNotExist
	}
	data, err := readFile(k.s, path)
	if err != nil {
		return out, err
	}
	cfg, err := clientcmd.Load(data)
	if err != nil {
		return out, err
	}
	current := cfg.Contexts[cfg.CurrentContext]
	if current == nil {
		return out, errors.New("no current context")
	}
	cluster, user := cfg.Clusters[current.Cluster], cfg.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return out, errors.New("the current context names no cluster or no user")
	}
	out = kubeconfig{server: cluster.Server, ca: cluster.CertificateAuthorityData, token: user.Token, tokenFile: user.TokenFile, certFile: user.ClientCertificate}
	if len(out.ca) == 0 && cluster.CertificateAuthority != "" {
		if out.ca, err = readFile(k.s, cluster.CertificateAuthority); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (k *kubelet) writeKubeconfig(from kubeconfig, certFile string) error {
	const cluster, user, current = "default-cluster", "default-auth", "default-context"
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{cluster: {Server: from.server, CertificateAuthorityData: from.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{user: {ClientCertificate: certFile, ClientKey: certFile}},
		Contexts:       map[string]*clientcmdapi.Context{current: {Cluster: cluster, AuthInfo: user, Namespace: "default"}},
		CurrentContext: current,
	})
	if err != nil {
		return err
	}
	if err := mkdirAll(k.s, dirOf(windowsPath(k.kubeconfig))); err != nil {
		return err
	}
	return writeFile(k.s, k.kubeconfig, data)
}

func (k *kubelet) newClient(user, boot kubeconfig) (*client, error) {
	c := &client{}
	var err error
	if c.api, err = k.clientset(c, user, true); err != nil {
		return nil, err
	}
	if boot.server != "" {
		if c.bootstrap, err = k.clientset(c, boot, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// clientset talks through the machine's own network.
func (k *kubelet) clientset(c *client, cfg kubeconfig, withCert bool) (kubernetes.Interface, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(cfg.ca) {
		return nil, errors.New("kubeconfig has no certificate authority")
	}
	tlsConfig := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if withCert {
		tlsConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if cert := c.cert.Load(); cert != nil {
				return cert, nil
			}
			return &tls.Certificate{}, nil
		}
	}
	t := &http.Transport{
		TLSClientConfig: tlsConfig, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: 10 * time.Second,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return k.s.Machine.Dial(ctx, network, address)
		},
	}
	c.transport = append(c.transport, t)
	var rt http.RoundTripper = t
	return kubernetes.NewForConfig(&rest.Config{
		Host: cfg.server, Transport: rt, BearerToken: cfg.token, Timeout: 0, QPS: -1, UserAgent: "kubelet-simulated/" + kubeletVersion,
	})
}
