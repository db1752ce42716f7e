package kubeproxy

import (
	"encoding/pem"
	"fmt"
	"net/url"

	"sigs.k8s.io/yaml"
)

type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		TokenFile string `json:"tokenFile"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// Kubeconfig returns a kubeconfig that holds no secret: the token is in tokenFile, which client-go reads again every minute
// (transport/token_source.go), so that a new token needs no restart. There is no way to leave out the CA: a program that does not verify the
// API server hands its token to whoever answers.
func Kubeconfig(server string, ca []byte, tokenFile string) ([]byte, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%w: API server %.100q is no https URL", ErrInput, server)
	}
	if b, _ := pem.Decode(ca); b == nil || b.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%w: the API server's CA holds no certificate", ErrInput)
	}
	const cluster, user = "cluster", "kube-proxy"
	c := kubeconfig{
		APIVersion: "v1", Kind: "Config", Clusters: make([]namedCluster, 1), Users: make([]namedUser, 1), Contexts: make([]namedContext, 1),
		CurrentContext: cluster,
	}
	c.Clusters[0].Name, c.Clusters[0].Cluster.Server, c.Clusters[0].Cluster.CA = cluster, server, ca
	c.Users[0].Name, c.Users[0].User.TokenFile = user, tokenFile
	c.Contexts[0].Name, c.Contexts[0].Context.Cluster, c.Contexts[0].Context.User = cluster, cluster, user
	out, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding kube-proxy's kubeconfig: %w", err)
	}
	return out, nil
}
