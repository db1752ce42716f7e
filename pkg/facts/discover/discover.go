package discover

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
)

// Input is what Cluster is told beside what it reads.
type Input struct {
	// Profile overrides what is discovered; ProfileName is for messages, v1alpha1.DefaultProfile when empty.
	Profile     v1alpha1.WindowsNodeProfileSpec
	ProfileName string
	// Namespace is the operator's own, where the profile's Secret or ConfigMap stands.
	Namespace string
	// OwnAPIServer is the URL and OwnCA the PEM bundle by which the operator itself reaches the API server: the last source.
	// Inside a cluster this URL is the address of a Service, which no machine can use before it is a node; it is then left out.
	OwnAPIServer string
	OwnCA        []byte
	// Nodes is where Nodes are read from, the given reader when nil. A cluster has thousands and discovery repeats: give it a cache.
	Nodes client.Reader
	// Create offers a Service to the API server, always as a dry run: on Kubernetes before 1.33 its refusal names the service range. It
	// is called when no object holds the range; nil leaves it out.
	Create func(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
}

// AddToScheme registers every type that Cluster reads.
func AddToScheme(s *runtime.Scheme) error {
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, configv1.Install, mcfgv1.Install} {
		if err := add(s); err != nil {
			return fmt.Errorf("registering the types that facts are read from: %w", err)
		}
	}
	return nil
}

// Cluster discovers the facts that all nodes share. Problems come in a fixed order, the fatal ones first; the facts that were
// found are returned beside them. The error is one of the API server and worth a retry.
//
// Give it an uncached reader (manager.GetAPIReader): a cache would watch every ConfigMap and MachineConfig of the cluster for a
// handful of objects, and needs more rights than rbac.go asks for. A kind that the API server does not have means that the
// cluster is of another make, not that anything is wrong.
func Cluster(ctx context.Context, r client.Reader, in Input) (facts.Cluster, []facts.Problem, error) {
	if in.ProfileName == "" {
		in.ProfileName = v1alpha1.DefaultProfile
	}
	s, err := gather(ctx, r, in)
	if err != nil {
		return facts.Cluster{}, nil, fmt.Errorf("discovering facts about the cluster: %w", err)
	}
	cluster, problems := decide(in, s)
	return cluster, problems, nil
}
