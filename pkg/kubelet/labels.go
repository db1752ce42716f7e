package kubelet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
)

// ErrLabel: a label cannot be set on the node.
var ErrLabel = errors.New("node label is not allowed")

// maxLabels bounds the labels of a node that are given to the product.
const maxLabels = 128

// SplitLabels divides labels into those that a kubelet may set itself with --node-labels and those of the kubernetes.io and
// k8s.io namespaces that only another party may set: a kubelet that is given one of these exits at start, and the
// NodeRestriction admission would refuse it. A key or value that is no label, or a label that the kubelet itself sets, is
// ErrLabel; all are reported at once, by key.
func SplitLabels(labels map[string]string) (kubelet, controller map[string]string, err error) {
	if err := checkLabelSyntax(labels); err != nil {
		return nil, nil, err
	}
	kubelet, controller = map[string]string{}, map[string]string{}
	for k, v := range labels {
		if forbidden(k) {
			controller[k] = v
		} else {
			kubelet[k] = v
		}
	}
	return kubelet, controller, nil
}

// checkLabels refuses labels that a kubelet would not start with.
func checkLabels(labels map[string]string) error {
	errs := []error{checkLabelSyntax(labels)}
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if forbidden(k) {
			errs = append(errs, fmt.Errorf("%w: %q cannot be set by the kubelet itself", ErrLabel, k))
		}
	}
	return errors.Join(errs...)
}

func checkLabelSyntax(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("%w: %d labels, at most %d", ErrLabel, len(labels), maxLabels)
	}
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		problems := slices.Concat(content.IsLabelKey(k), content.IsLabelValue(labels[k]))
		if reserved(k) {
			problems = append(problems, "the kubelet sets it by itself")
		}
		if len(problems) > 0 {
			errs = append(errs, fmt.Errorf("%w: %.300q: %s", ErrLabel, k, strings.Join(problems, "; ")))
		}
	}
	return errors.Join(errs...)
}

// reserved are labels that say what the machine is; another value would make the scheduler go wrong.
func reserved(key string) bool {
	switch key {
	case "kubernetes.io/os", "kubernetes.io/arch", "kubernetes.io/hostname", "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return false
}

// forbidden follows k8s.io/kubelet/pkg/apis: within the kubernetes.io and k8s.io namespaces a kubelet may set the labels of
// topology and instance type, and everything below kubelet.kubernetes.io and node.kubernetes.io.
func forbidden(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok || !within(namespace, "kubernetes.io") && !within(namespace, "k8s.io") {
		return false
	}
	switch key {
	case "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone",
		"failure-domain.beta.kubernetes.io/region", "beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type":
		return false
	}
	return !within(namespace, "kubelet.kubernetes.io") && !within(namespace, "node.kubernetes.io")
}

func within(namespace, parent string) bool {
	return namespace == parent || strings.HasSuffix(namespace, "."+parent)
}
