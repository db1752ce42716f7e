package wmcbe2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tokenSeconds is how long the bootstrap token is good for.
const tokenSeconds = int64(3600)

var errIgnition = errors.New("the cluster's worker ignition cannot be composed; give one with -ignition")

// workerIgnition is the worker's ignition file: the one that was given, or what the worker pool renders with the two files that the machine
// config server adds while it serves it, a bootstrap kubeconfig and the CA of the API server's client certificates.
func workerIgnition(ctx context.Context, c client.Client, given string) ([]byte, error) {
	if given != "" {
		return os.ReadFile(given)
	}
	rendered, err := renderedWorker(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnition, err)
	}
	kubeconfig, err := bootstrapKubeconfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnition, err)
	}
	var ca corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "extension-apiserver-authentication"}, &ca); err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnition, err)
	}
	return withFiles(rendered, map[string][]byte{
		"/etc/kubernetes/kubeconfig":     kubeconfig,
		"/etc/kubernetes/kubelet-ca.crt": []byte(ca.Data["client-ca-file"]),
	})
}

func renderedWorker(ctx context.Context, c client.Client) ([]byte, error) {
	var pool mcfgv1.MachineConfigPool
	if err := c.Get(ctx, client.ObjectKey{Name: "worker"}, &pool); err != nil {
		return nil, err
	}
	var config mcfgv1.MachineConfig
	if err := c.Get(ctx, client.ObjectKey{Name: pool.Status.Configuration.Name}, &config); err != nil {
		return nil, err
	}
	return config.Spec.Config.Raw, nil
}

// withFiles adds files to an ignition document of spec 3, in the place of those of the same path.
func withFiles(document []byte, files map[string][]byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnition, err)
	}
	storage, ok := doc["storage"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: it has no storage", errIgnition)
	}
	var out []any
	list, _ := storage["files"].([]any)
	for _, f := range list {
		if m, ok := f.(map[string]any); !ok || files[fmt.Sprint(m["path"])] == nil {
			out = append(out, f)
		}
	}
	for path, content := range files {
		out = append(out, map[string]any{
			"path": path, "mode": 0o600, "overwrite": true,
			"contents": map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString(content)},
		})
	}
	storage["files"] = out
	return json.Marshal(doc)
}

// spec2 says a document of spec 3 in spec 2.4, as machine config servers hand out to who does not ask for more: there a file names its file
// system.
func spec2(document []byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("%w: %w", errIgnition, err)
	}
	storage, ok := doc["storage"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: it has no storage", errIgnition)
	}
	doc["ignition"] = map[string]any{"version": "2.4.0"}
	for _, kind := range []string{"files", "directories", "links"} {
		list, _ := storage[kind].([]any)
		for _, f := range list {
			if m, ok := f.(map[string]any); ok {
				m["filesystem"] = "root"
			}
		}
	}
	return json.Marshal(doc)
}

// bootstrapKubeconfig is a kubeconfig with a new token of the bootstrap account, for the API server's address inside the cluster.
func bootstrapKubeconfig(ctx context.Context, c client.Client) ([]byte, error) {
	var infra configv1.Infrastructure
	if err := c.Get(ctx, client.ObjectKey{Name: "cluster"}, &infra); err != nil {
		return nil, err
	}
	var ca corev1.ConfigMap
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "kube-root-ca.crt"}, &ca); err != nil {
		return nil, err
	}
	seconds := tokenSeconds
	token := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: bootstrapAccount}}
	if err := c.SubResource("token").Create(ctx, sa, token); err != nil {
		return nil, fmt.Errorf("asking for a token of %s/%s: %w", namespace, bootstrapAccount, err)
	}
	const name = "bootstrap"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: infra.Status.APIServerInternalURL, CertificateAuthorityData: []byte(ca.Data["ca.crt"]),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}
