package controlplane

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

const (
	// fieldManager owns what Apply sets.
	fieldManager = "controlplane"
	// maxManifest bounds a YAML text, maxDocuments what is in it.
	maxManifest  = 16 << 20
	maxDocuments = 2_000
)

// ErrManifest: a YAML text is too large or holds something that is no object.
var ErrManifest = errors.New("manifest is not usable")

// Apply applies every object of a YAML text by server-side apply, in order, taking fields over from other managers. Lists are
// unfolded, objects without a namespace go into "default", and a CustomResourceDefinition is waited for before its objects.
func (cp *ControlPlane) Apply(ctx context.Context, manifest []byte) error {
	objects, err := parseManifest(manifest)
	if err != nil {
		return err
	}
	a, err := cp.newApplier()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := a.apply(ctx, o); err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	return nil
}

// InstallCRDs applies the CustomResourceDefinitions of YAML files, or of the .yaml files directly in a folder, and returns
// once all of them are established and served, and known to the next Kubectl: it would believe its cache for hours, and asks again only when it does not
// find the name of a kind, not for a category.
func (cp *ControlPlane) InstallCRDs(ctx context.Context, paths ...string) error {
	files, err := manifestFiles(paths)
	if err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		b, err := readFile(file, maxManifest)
		if err != nil {
			return fmt.Errorf("installing CRDs: %w", err)
		}
		found, err := parseManifest(b)
		if err != nil {
			return fmt.Errorf("installing CRDs of %s: %w", file, err)
		}
		objects = append(objects, found...)
	}
	return cp.installCRDs(ctx, objects)
}

func (cp *ControlPlane) installCRDs(ctx context.Context, objects []*unstructured.Unstructured) error {
	a, err := cp.newApplier()
	if err != nil {
		return err
	}
	for _, o := range objects {
		if !isCRD(o) {
			return fmt.Errorf("installing CRDs: %w: %s %s is not a CustomResourceDefinition", ErrManifest, o.GetKind(), o.GetName())
		}
		if err := a.send(ctx, o); err != nil {
			return fmt.Errorf("installing CRD %s: %w", o.GetName(), err)
		}
	}
	// Waiting comes last, so that they are established side by side.
	for _, o := range objects {
		if err := a.waitServed(ctx, o); err != nil {
			return fmt.Errorf("installing CRD %s: %w", o.GetName(), err)
		}
	}
	cp.kinds.Add(1)
	return nil
}

// manifestFiles replaces folders by the .yaml files in them.
func manifestFiles(paths []string) ([]string, error) {
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(found, func(f string) bool { return filepath.Base(f) == "kustomization.yaml" })...)
	}
	return out, nil
}

// parseManifest reads the objects of a YAML text.
func parseManifest(manifest []byte) ([]*unstructured.Unstructured, error) {
	if len(manifest) > maxManifest {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrManifest, len(manifest), maxManifest)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	var out []*unstructured.Unstructured
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrManifest, err)
		}
		objects, err := parseDocument(doc)
		if err != nil {
			return nil, err
		}
		if out = append(out, objects...); len(out) > maxDocuments {
			return nil, fmt.Errorf("%w: more than %d objects", ErrManifest, maxDocuments)
		}
	}
}

// parseDocument reads one YAML document: nothing, an object, or a list of objects.
func parseDocument(doc []byte) ([]*unstructured.Unstructured, error) {
	var fields map[string]any
	if err := yaml.Unmarshal(doc, &fields); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if len(fields) == 0 {
		return nil, nil
	}
	o := &unstructured.Unstructured{Object: fields}
	if !o.IsList() {
		return []*unstructured.Unstructured{o}, identified(o)
	}
	var out []*unstructured.Unstructured
	err := o.EachListItem(func(item runtime.Object) error {
		u, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%w: list item is a %T", ErrManifest, item)
		}
		out = append(out, u)
		return identified(u)
	})
	return out, err
}

// identified refuses what the API server could not find a place for.
func identified(o *unstructured.Unstructured) error {
	if o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
		return fmt.Errorf("%w: an object without apiVersion, kind or metadata.name", ErrManifest)
	}
	return nil
}

func isCRD(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
}

// applier applies objects by the API server's own description of their resources.
type applier struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

func (cp *ControlPlane) newApplier() (*applier, error) {
	config := cp.RESTConfig()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return &applier{client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))}, nil
}

func (a *applier) apply(ctx context.Context, o *unstructured.Unstructured) error {
	if err := a.send(ctx, o); err != nil {
		return err
	}
	if isCRD(o) {
		return a.waitServed(ctx, o)
	}
	return nil
}

func (a *applier) send(ctx context.Context, o *unstructured.Unstructured) error {
	resource, err := a.resource(o)
	if err != nil {
		return err
	}
	_, err = resource.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}

// resource finds where an object lives. The mapper asks the API server again about a kind that it does not know.
func (a *applier) resource(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.client.Resource(mapping.Resource), nil
	}
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
		o.SetNamespace(namespace)
	}
	return a.client.Resource(mapping.Resource).Namespace(namespace), nil
}

// readFile reads a whole file of at most limit bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, nil
}
