package csr

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

// tell makes the events of an approval or denial: on the host and on the request.
func (r *Reconciler) tell(obj *certificatesv1.CertificateSigningRequest, host *v1alpha1.WindowsHost, d csr.Decision) {
	kind, reason, action := corev1.EventTypeNormal, v1alpha1.EventCSRApproved, "Approve"
	if d.Verdict == csr.Deny {
		kind, reason, action = corev1.EventTypeWarning, v1alpha1.EventCSRDenied, "Deny"
	}
	if host == nil {
		r.Recorder.Eventf(obj, nil, kind, reason, action, "%s", message(d))
		return
	}
	r.Recorder.Eventf(host, obj, kind, reason, action, "%s", about(obj, d))
	r.Recorder.Eventf(obj, host, kind, reason, action, "%s", message(d))
}

// tellWait makes an event on the host when a person may have to act; waits that end by themselves make none. The recorder
// turns repeated ones into one series.
func (r *Reconciler) tellWait(obj *certificatesv1.CertificateSigningRequest, host *v1alpha1.WindowsHost, d csr.Decision) {
	if host == nil {
		return
	}
	switch d.Reason {
	case csr.NodeAlive, csr.NodeUnclaimed, csr.NameAmbiguous, csr.Contested:
		r.Recorder.Eventf(host, obj, corev1.EventTypeNormal, v1alpha1.EventCSRWaiting, "Wait", "%s", about(obj, d))
	}
}

// about is the note of an event on the host. A request's name may have 253 characters.
func about(obj *certificatesv1.CertificateSigningRequest, d csr.Decision) string {
	return v1alpha1.Clip("certificate request "+obj.Name+": "+message(d), v1alpha1.MaxNote)
}
