package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group and Version of the API.
const (
	Group   = "windowsmachine.dev"
	Version = "v1alpha1"
)

// Names that the product uses everywhere.
const (
	// FieldManager owns the fields that the operator applies.
	FieldManager = "WindowsMachineOperator"
	// DefaultProfile is the WindowsNodeProfile that hosts use unless they name another.
	DefaultProfile = "default"
	// Finalizer holds a WindowsHost until its machine and Node are cleaned.
	Finalizer = Group + "/host"
	// PausedAnnotation on a Machine or WindowsHost stops all work on it while its value is "true".
	PausedAnnotation = Group + "/paused"
	// IgnoreLabel on a Machine keeps the operator away from it while its value is "true".
	IgnoreLabel = Group + "/ignore"
	// HostUIDAnnotation on a Node is the UID of the WindowsHost that it belongs to.
	HostUIDAnnotation = Group + "/host-uid"
	// PodCIDRAnnotation on a Node is the range that this operator gave it; where it differs from spec.podCIDR somebody else did.
	PodCIDRAnnotation = Group + "/pod-cidr"
	// UninitializedTaint is the key of the taint, with effect NoSchedule, that keeps pods off a Node until its machine equals its plan for
	// the first time, network included. The operator takes it off, and no other taint.
	UninitializedTaint = Group + "/uninitialized"
)

// GroupVersion of the package.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// AddToScheme registers the package's types.
func AddToScheme(s *runtime.Scheme) error {
	gv := GroupVersion()
	s.AddKnownTypes(gv, &WindowsHost{}, &WindowsHostList{}, &WindowsNodeProfile{}, &WindowsNodeProfileList{})
	metav1.AddToGroupVersion(s, gv)
	return nil
}
