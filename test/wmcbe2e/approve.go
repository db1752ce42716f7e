package wmcbe2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const nodeUser = "system:node:"

// ours reports whether a request is one that the machine's kubelet sends now: the first client certificate with the bootstrap account, or
// a serving certificate of the node itself. It is a test's rule: the operator's are pkg/csr's.
func ours(r certificatesv1.CertificateSigningRequest, nodes []string) bool {
	if len(r.Status.Conditions) > 0 {
		return false
	}
	block, _ := pem.Decode(r.Spec.Request)
	if block == nil {
		return false
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil || req.CheckSignature() != nil || !slices.Equal(req.Subject.Organization, []string{"system:nodes"}) {
		return false
	}
	name, ok := strings.CutPrefix(req.Subject.CommonName, nodeUser)
	if !ok || !slices.Contains(nodes, name) {
		return false
	}
	switch r.Spec.SignerName {
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return r.Spec.Username == "system:serviceaccount:"+namespace+":"+bootstrapAccount
	case certificatesv1.KubeletServingSignerName:
		return r.Spec.Username == nodeUser+name
	}
	return false
}

// approve approves what is ours and returns how many that were.
func approve(ctx context.Context, c client.Client, nodes []string) (int, error) {
	var list certificatesv1.CertificateSigningRequestList
	if err := c.List(ctx, &list); err != nil {
		return 0, fmt.Errorf("listing certificate requests: %w", err)
	}
	n := 0
	for i := range list.Items {
		r := &list.Items[i]
		if !ours(*r, nodes) {
			continue
		}
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "EndToEndRun", Message: "sent by the machine under test",
		})
		if err := c.SubResource("approval").Update(ctx, r); err != nil {
			return n, fmt.Errorf("approving %s: %w", r.Name, err)
		}
		n++
	}
	return n, nil
}
