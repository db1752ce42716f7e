// Package v1alpha1 holds the API group windowsmachine.dev: WindowsHost, a machine that shall be a node, and
// WindowsNodeProfile, how such machines are set up.
//
// Validation is CEL in the CRDs, there are no webhooks; every condition reason is a constant in reasons.go. The
// package imports apimachinery only, so that anyone can import it.
//
// +kubebuilder:object:generate=true
// +groupName=windowsmachine.dev
package v1alpha1
