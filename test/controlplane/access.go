package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

const (
	// tokenLifetime of a service account's kubeconfig: a demo that is left up over night still works.
	tokenLifetime = 24 * time.Hour
	// maxKubectlOutput bounds what Kubectl returns.
	maxKubectlOutput = 16 << 20
	// testQPS and testBurst keep client-go's throttling (5 a second) out of tests.
	testQPS, testBurst = 500, 1000
)

// ErrOutputTooLarge: kubectl wrote more than Kubectl returns.
var ErrOutputTooLarge = errors.New("output is too large")

// URL is the API server's address, https://127.0.0.1:PORT.
func (cp *ControlPlane) URL() string { return "https://127.0.0.1:" + strconv.Itoa(cp.port.port) }

// CA is the CA certificate as PEM. It signs the API server's certificate and those of nodes.
func (cp *ControlPlane) CA() []byte { return bytes.Clone(cp.ca.certPEM) }

// ServiceCIDR is the range of service addresses.
func (cp *ControlPlane) ServiceCIDR() string { return cp.network.serviceCIDR }

// Dir is the data folder: the components' logs (NAME.log), certificates and the admin's kubeconfig.
func (cp *ControlPlane) Dir() string { return cp.folder.path }

// RESTConfig is a new configuration for the user admin in the group system:masters.
func (cp *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(cp.admin) }

// clientConfig issues a client certificate.
func (cp *ControlPlane) clientConfig(user string, groups ...string) (*rest.Config, error) {
	p, err := cp.ca.client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            cp.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.CA(), CertData: p.cert, KeyData: p.key},
		QPS:             testQPS,
		Burst:           testBurst,
	}, nil
}

// UserConfig is a configuration with a new client certificate for a user and its groups. A node's user is system:node:NAME in
// the group system:nodes.
func (cp *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	config, err := cp.clientConfig(user, groups...)
	if err != nil {
		return nil, fmt.Errorf("making a client certificate for %s: %w", user, err)
	}
	return config, nil
}

// Kubeconfig is UserConfig as a kubeconfig, everything inside.
func (cp *ControlPlane) Kubeconfig(user string, groups ...string) ([]byte, error) {
	config, err := cp.UserConfig(user, groups...)
	if err != nil {
		return nil, err
	}
	return marshalConfig(config, "")
}

// KubeconfigPath is the admin's kubeconfig, a file in the data folder.
func (cp *ControlPlane) KubeconfigPath() string {
	return filepath.Join(cp.folder.path, adminConfigFile)
}

// ServiceAccountKubeconfig asks for a token of an existing service account, valid for 24 hours, and returns a kubeconfig whose
// current namespace is the account's.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) ([]byte, error) {
	client, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime / time.Second)),
	}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking for a token of service account %s/%s: %w", namespace, name, err)
	}
	config := &rest.Config{
		Host:            cp.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.CA()},
		BearerToken:     answer.Status.Token,
	}
	return marshalConfig(config, namespace)
}

// marshalConfig writes a kubeconfig with one context.
func marshalConfig(config *rest.Config, namespace string) ([]byte, error) {
	const name = "controlplane"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
	}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	out.CurrentContext = name
	b, err := clientcmd.Write(*out)
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return b, nil
}

// KubectlPath is the kubectl of the API server's version.
func (cp *ControlPlane) KubectlPath() string { return filepath.Join(cp.bin, "kubectl") }

// Kubectl runs kubectl as the admin and returns its standard output, at most 16 MiB. The error carries what it wrote to
// standard error. Its cache and preferences stay in the data folder.
func (cp *ControlPlane) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	cache := filepath.Join(cp.folder.path, fmt.Sprintf("kubectl-%d", cp.kinds.Load()))
	cmd := exec.CommandContext(ctx, cp.KubectlPath(), append([]string{"--kubeconfig", cp.KubeconfigPath(), "--cache-dir", cache}, args...)...)
	cmd.Dir = cp.folder.path
	cmd.Env = childEnv(cp.folder.path)
	stdout := limitedBuffer{limit: maxKubectlOutput}
	var stderr tailBuffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.b.Bytes(), fmt.Errorf("kubectl: %w: %s", errors.Join(err, stdout.err), stderr.String())
	}
	return stdout.b.Bytes(), nil
}

// limitedBuffer fails a write over the limit, which ends the writer.
type limitedBuffer struct {
	b     bytes.Buffer
	limit int
	err   error
}

// Write fails with ErrOutputTooLarge.
func (l *limitedBuffer) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > l.limit {
		l.err = ErrOutputTooLarge
		return 0, l.err
	}
	return l.b.Write(p)
}
