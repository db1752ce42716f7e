package slim

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Transform takes out of an object that is about to be cached what nobody in the operator reads: who wrote which field; of a Node the images that
// it holds, fifty names of images in a real one, and its volumes; of a certificate request that is decided the request and the certificate. It is a
// cache.TransformFunc and never fails; what is no object is passed on.
func Transform(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	switch o := obj.(type) {
	case *corev1.Node:
		o.Status.Images, o.Status.VolumesInUse, o.Status.VolumesAttached = nil, nil, nil
	case *certificatesv1.CertificateSigningRequest:
		if len(o.Status.Conditions) > 0 {
			o.Spec.Request, o.Spec.Extra, o.Status.Certificate = nil, nil, nil
		}
	}
	return obj, nil
}
