package controlplane

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

// crdResource is where CustomResourceDefinitions live.
func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

// served is a resource that a CustomResourceDefinition promises.
type served struct {
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// waitServed returns once a CustomResourceDefinition is established and each of its versions is discovered and answers: both
// follow the condition by a moment.
func (a *applier) waitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	promised, err := servedBy(crd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		now, err := a.client.Resource(crdResource()).Get(ctx, crd.GetName(), metav1.GetOptions{})
		if err != nil || !established(now) {
			return false, err
		}
		a.mapper.Reset()
		for _, s := range promised {
			if ok, err := a.answers(ctx, s); err != nil || !ok {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until it is served: %w", err)
	}
	return nil
}

// answers says whether a resource is discovered and can be listed.
func (a *applier) answers(ctx context.Context, s served) (bool, error) {
	_, err := a.mapper.RESTMapping(s.kind.GroupKind(), s.kind.Version)
	if err == nil {
		_, err = a.client.Resource(s.resource).List(ctx, metav1.ListOptions{Limit: 1})
	}
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) {
		return false, nil
	}
	return err == nil, err
}

// established reads the condition Established.
func established(crd *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	if err != nil {
		return false
	}
	for _, c := range conditions {
		if fields, ok := c.(map[string]any); ok && fields["type"] == "Established" {
			return fields["status"] == string(metav1.ConditionTrue)
		}
	}
	return false
}

// servedBy lists what a CustomResourceDefinition promises.
func servedBy(crd *unstructured.Unstructured) ([]served, error) {
	var text [3]string
	for i, path := range [][]string{{"spec", "group"}, {"spec", "names", "plural"}, {"spec", "names", "kind"}} {
		value, found, err := unstructured.NestedString(crd.Object, path...)
		if err != nil || !found {
			return nil, fmt.Errorf("%w: no %v in CustomResourceDefinition %s", ErrManifest, path, crd.GetName())
		}
		text[i] = value
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	var out []served
	for _, v := range versions {
		fields, ok := v.(map[string]any)
		name, named := fields["name"].(string)
		if !ok || !named || fields["served"] != true {
			continue
		}
		gv := schema.GroupVersion{Group: text[0], Version: name}
		out = append(out, served{resource: gv.WithResource(text[1]), kind: gv.WithKind(text[2])})
	}
	return out, nil
}
