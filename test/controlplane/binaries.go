package controlplane

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"github.com/windowsmachine/operator/hack/gobuild"
)

const (
	// sourceFolder is the tools module, below the repository's root.
	sourceFolder = "hack/controlplane"
	// etcdMain is a main of our own in it.
	etcdMain = "etcd/main.go"
	// recipe names the build command in the cache key; raise it when gobuild changes what is built.
	recipe = "1"
)

// Binaries returns the folder that holds etcd, kube-apiserver, kube-controller-manager and kubectl, and builds them first if
// they are not there. The first build takes about 12 minutes on two cores and reports to progress (nil: silent); afterwards
// nothing runs and the call takes a millisecond. Processes that call it at the same time build once.
func Binaries(ctx context.Context, progress io.Writer) (dir string, err error) {
	set, err := binaries()
	if err != nil {
		return "", err
	}
	return set.Build(ctx, progress)
}

// BinariesPath returns the folder that Binaries returns for this source tree, and whether the programs are there yet. It
// builds nothing.
func BinariesPath() (dir string, built bool, err error) {
	set, err := binaries()
	if err != nil {
		return "", false, err
	}
	return set.Cached()
}

// binaries reads the tools module. It starts no program.
func binaries() (gobuild.Set, error) {
	root, err := gobuild.Root()
	if err != nil {
		return gobuild.Set{}, err
	}
	m, err := gobuild.OpenModule(filepath.Join(root, filepath.FromSlash(sourceFolder)), etcdMain)
	if err != nil {
		return gobuild.Set{}, err
	}
	return newBinaries(m, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// newBinaries derives versions and key.
func newBinaries(m gobuild.Module, goVersion, goos, goarch string) (gobuild.Set, error) {
	kubernetes, err := m.Version("k8s.io/kubernetes")
	if err != nil {
		return gobuild.Set{}, err
	}
	etcd, err := m.Version("go.etcd.io/etcd/server/v3")
	if err != nil {
		return gobuild.Set{}, err
	}
	stamps := gobuild.KubernetesStamps(kubernetes)
	return gobuild.Set{
		Label: "control plane", Kind: "controlplane",
		What: fmt.Sprintf("Kubernetes %s and etcd %s", kubernetes, etcd), Takes: "about 12 minutes on two cores",
		Dir: m.Dir, Folder: fmt.Sprintf("controlplane-%s-etcd-%s-%s", kubernetes, etcd, m.Key(recipe, goVersion, goos, goarch)),
		OS: goos, Arch: goarch,
		Programs: []gobuild.Program{
			{Name: "etcd", Package: "./etcd", Stamps: stamps},
			{Name: "kube-apiserver", Package: "k8s.io/kubernetes/cmd/kube-apiserver", Stamps: stamps},
			{Name: "kube-controller-manager", Package: "k8s.io/kubernetes/cmd/kube-controller-manager", Stamps: stamps},
			{Name: "kubectl", Package: "k8s.io/kubernetes/cmd/kubectl", Stamps: stamps},
		},
	}, nil
}
