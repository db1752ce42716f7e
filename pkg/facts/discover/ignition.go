package discover

import (
	"context"
	"fmt"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/ignition"
)

// ignitionKey is the key of the Secret or ConfigMap that the profile names.
const ignitionKey = "worker.ign"

// ignitionSource is the worker ignition as found.
type ignitionSource struct {
	// from names the object, "" when the cluster has no ignition.
	from string
	data []byte
	// problem says why there is no data though there should be.
	problem *facts.Problem
}

func (g *gatherer) ignition(ctx context.Context, in Input, s *sources) (err error) {
	spec := in.Profile.Ignition
	switch {
	case spec != nil && spec.SecretName != "":
		s.ignition, err = g.ignitionSecret(ctx, in.Namespace, spec.SecretName)
	case spec != nil && spec.ConfigMapName != "":
		s.ignition, err = g.ignitionConfigMap(ctx, in.Namespace, spec.ConfigMapName)
	default:
		s.ignition, err = g.machineConfig(ctx)
	}
	return err
}

func (g *gatherer) ignitionSecret(ctx context.Context, namespace, name string) (ignitionSource, error) {
	out := ignitionSource{from: "Secret " + namespace + "/" + name}
	var secret corev1.Secret
	found, err := g.get(ctx, "secrets", namespace, name, &secret)
	if err != nil {
		return out, err
	}
	data, ok := secret.Data[ignitionKey]
	return out.with(data, found, ok, fmt.Sprintf("kubectl create secret generic %s -n %s --from-file=%s", name, namespace, ignitionKey)), nil
}

func (g *gatherer) ignitionConfigMap(ctx context.Context, namespace, name string) (ignitionSource, error) {
	out := ignitionSource{from: "ConfigMap " + namespace + "/" + name}
	var cm corev1.ConfigMap
	found, err := g.get(ctx, "configmaps", namespace, name, &cm)
	if err != nil {
		return out, err
	}
	data, ok := cm.BinaryData[ignitionKey]
	if text, inText := cm.Data[ignitionKey]; inText {
		data, ok = []byte(text), true
	}
	return out.with(data, found, ok, fmt.Sprintf("kubectl create configmap %s -n %s --from-file=%s", name, namespace, ignitionKey)), nil
}

// with settles what was found under the key; way is the command that makes the object.
func (s ignitionSource) with(data []byte, found, hasKey bool, way string) ignitionSource {
	switch {
	case !found:
		s.problem = ignitionMissing("%s, which spec.ignition of the profile names, does not exist or may not be read. Make it: %s", s.from, way)
	case !hasKey:
		s.problem = ignitionMissing("%s has no key %s. Delete it and make it anew: %s", s.from, ignitionKey, way)
	default:
		s.data = data
	}
	return s
}

// machineConfig is the rendered configuration of OpenShift's worker pool. A pool that is not there means a cluster without
// ignition: plain Kubernetes, or OpenShift with a hosted control plane, where the profile has to name one.
func (g *gatherer) machineConfig(ctx context.Context) (ignitionSource, error) {
	var pool mcfgv1.MachineConfigPool
	found, err := g.get(ctx, "machineconfigpools.machineconfiguration.openshift.io", "", workerPool, &pool)
	if err != nil || !found {
		return ignitionSource{}, err
	}
	name := pool.Status.Configuration.Name
	if name == "" {
		return ignitionSource{from: "MachineConfigPool " + workerPool, problem: ignitionMissing(
			"MachineConfigPool %s names no configuration in .status.configuration.name yet. It does so once the machine config operator has rendered one: oc describe machineconfigpool %s",
			workerPool, workerPool)}, nil
	}
	out := ignitionSource{from: "MachineConfig " + name}
	var mc mcfgv1.MachineConfig
	found, err = g.get(ctx, "machineconfigs.machineconfiguration.openshift.io", "", name, &mc)
	if err != nil {
		return out, err
	}
	if !found || len(mc.Spec.Config.Raw) == 0 {
		out.problem = ignitionMissing(
			"%s, which MachineConfigPool %s names in .status.configuration.name, does not exist, may not be read or has no .spec.config: oc describe machineconfigpool %s",
			out.from, workerPool, workerPool)
		return out, nil
	}
	out.data = mc.Spec.Config.Raw
	return out, nil
}

func ignitionMissing(format string, args ...any) *facts.Problem {
	return &facts.Problem{
		Fact: facts.KubeletConfig, Reason: v1alpha1.ReasonIgnitionMissing, Message: fmt.Sprintf(format, args...), Fatal: true,
	}
}

// worker reads the ignition. The kubelet's unit is required: without it nobody knows whether the cluster's nodes have a cloud
// provider, and a node without one never gets its addresses.
func (s ignitionSource) worker() (ignition.Worker, *facts.Problem) {
	if s.problem != nil || s.from == "" {
		return ignition.Worker{}, s.problem
	}
	config, err := ignition.Parse(s.data)
	if err == nil {
		var w ignition.Worker
		if w, err = config.Worker(ignition.KubeletUnit); err == nil {
			return w, nil
		}
	}
	return ignition.Worker{}, &facts.Problem{
		Fact: facts.KubeletConfig, Reason: v1alpha1.ReasonIgnitionInvalid, Fatal: true,
		// Several errors come one a line.
		Message: fmt.Sprintf("%s cannot be used: %s. %s", s.where(), bounded(strings.ReplaceAll(err.Error(), "\n", "; "), maxMessage), s.wayOut()),
	}
}

// wayOut is what a person can do about an ignition that cannot be used. Nobody hands in a rendered MachineConfig: another one is made of what it was
// rendered from.
func (s ignitionSource) wayOut() string {
	if s.rendered() {
		return "Mend the MachineConfig that brings this in (oc get machineconfig), from which another one is rendered then; or name the ignition of a worker in spec.ignition of the profile"
	}
	return "Give the whole ignition of a worker, as the machine config server serves it or as a rendered MachineConfig holds it in .spec.config"
}

func (s ignitionSource) rendered() bool { return strings.HasPrefix(s.from, "MachineConfig ") }

// where names the object with the key or field that holds the ignition.
func (s ignitionSource) where() string {
	if s.rendered() {
		return s.from + " .spec.config"
	}
	return s.from + " key " + ignitionKey
}
