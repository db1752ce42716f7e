package csr

import (
	"context"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
	"github.com/windowsmachine/operator/pkg/csr"
)

// maxMessage bounds the message of a condition, in bytes, so that an event has room for it.
const maxMessage = 900

// errNotLeading: this operator was suspended, or cannot reach the API server, for so long that another one may have the lead.
var errNotLeading = errors.New("the lease has not been renewed in time: another operator may lead")

// act writes the verdict. A conflict means that request or host were changed since they were read.
func (r *Reconciler) act(ctx context.Context, obj *certificatesv1.CertificateSigningRequest, host *v1alpha1.WindowsHost, d csr.Decision) error {
	if r.options.Leads != nil && !r.options.Leads() {
		return errNotLeading
	}
	if d.Reason == csr.FirstClient {
		if err := r.spend(ctx, host, obj.Name); err != nil {
			return err
		}
	}
	decided := obj.DeepCopy()
	decided.Status.Conditions = append(decided.Status.Conditions, condition(d, metav1.NewTime(r.options.Clock.Now())))
	if err := r.Client.SubResource("approval").Update(ctx, decided); err != nil {
		return fmt.Errorf("updating the approval: %w", err)
	}
	r.tell(obj, host, d)
	return nil
}

// spend records that the ticket was used for this request. It comes before the approval, and is not taken back.
func (r *Reconciler) spend(ctx context.Context, host *v1alpha1.WindowsHost, name string) error {
	if host.Status.Ticket.ApprovedCSR == name {
		return nil
	}
	spent := host.DeepCopy()
	now := metav1.NewTime(r.options.Clock.Now())
	spent.Status.Ticket.ApprovedCSR, spent.Status.Ticket.ApprovedAt, spent.Status.Ticket.ApprovedBoot = name, &now, host.Status.BootID
	// The lock makes sure that the ticket is the one that was judged, and that no other operator was faster.
	patch := client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, spent, patch); err != nil {
		return fmt.Errorf("recording the use of the ticket of %s/%s: %w", host.Namespace, host.Name, err)
	}
	return nil
}

func condition(d csr.Decision, now metav1.Time) certificatesv1.CertificateSigningRequestCondition {
	kind := certificatesv1.CertificateApproved
	if d.Verdict == csr.Deny {
		kind = certificatesv1.CertificateDenied
	}
	return certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: v1alpha1.FieldManager, Message: message(d), LastUpdateTime: now,
	}
}

func message(d csr.Decision) string {
	return v1alpha1.Clip(string(d.Reason)+": "+d.Message, maxMessage)
}
