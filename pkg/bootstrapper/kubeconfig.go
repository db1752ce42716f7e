package bootstrapper

import (
	"errors"
	"net/url"

	"sigs.k8s.io/yaml"
)

// Reasons why a bootstrap kubeconfig is of no use. They quote nothing of it.
var (
	errNoKubeconfig = errors.New("it is no kubeconfig with a cluster")
	errServer       = errors.New("its cluster has no https server")
	errCAFile       = errors.New("it names a file with the CA on a Linux node; it must carry certificate-authority-data")
)

// kubeconfigFile is what matters of one here.
type kubeconfigFile struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
}

type cluster struct {
	Server string `json:"server"`
	CAFile string `json:"certificate-authority"`
	CAData string `json:"certificate-authority-data"`
}

// clusterOf returns the API server of the cluster that a bootstrap kubeconfig leads to.
func clusterOf(text []byte) (string, error) {
	var k kubeconfigFile
	if err := yaml.Unmarshal(text, &k); err != nil || len(k.Clusters) == 0 {
		// The cause may quote a token.
		return "", errNoKubeconfig
	}
	c := k.current()
	u, err := url.Parse(c.Server)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return "", errServer
	case c.CAFile != "" && c.CAData == "":
		return "", errCAFile
	}
	return "https://" + u.Host, nil
}

// current is the cluster of the current context, the first one when nothing leads to any.
func (k kubeconfigFile) current() cluster {
	for _, c := range k.Contexts {
		for _, named := range k.Clusters {
			if c.Name == k.CurrentContext && c.Context.Cluster == named.Name {
				return named.Cluster
			}
		}
	}
	return k.Clusters[0].Cluster
}
