package slim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTransform(t *testing.T) {
	written := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}
	}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	addresses := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.4"}}
	spec := certificatesv1.CertificateSigningRequestSpec{
		Request: []byte("pem"), SignerName: "s", Username: "u", Extra: map[string]certificatesv1.ExtraValue{"id": {"1"}},
	}
	decided := []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved}}
	for _, tc := range []struct {
		name     string
		in, want any
	}{
		{
			"node",
			&corev1.Node{
				ObjectMeta: written("n"), Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24"},
				Status: corev1.NodeStatus{
					Addresses: addresses, Images: []corev1.ContainerImage{{SizeBytes: 1}}, VolumesInUse: []corev1.UniqueVolumeName{"v"},
					VolumesAttached: []corev1.AttachedVolume{{Name: "v"}},
				},
			},
			&corev1.Node{ObjectMeta: meta("n"), Spec: corev1.NodeSpec{PodCIDR: "10.244.1.0/24"}, Status: corev1.NodeStatus{Addresses: addresses}},
		},
		{
			"request that waits",
			&certificatesv1.CertificateSigningRequest{ObjectMeta: written("c"), Spec: spec},
			&certificatesv1.CertificateSigningRequest{ObjectMeta: meta("c"), Spec: spec},
		},
		{
			"request that is decided",
			&certificatesv1.CertificateSigningRequest{
				ObjectMeta: written("c"), Spec: spec,
				Status: certificatesv1.CertificateSigningRequestStatus{Conditions: decided, Certificate: []byte("pem")},
			},
			&certificatesv1.CertificateSigningRequest{
				ObjectMeta: meta("c"), Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: "s", Username: "u"},
				Status: certificatesv1.CertificateSigningRequestStatus{Conditions: decided},
			},
		},
		{"anything else", &corev1.Secret{ObjectMeta: written("s"), Data: map[string][]byte{"k": []byte("v")}}, &corev1.Secret{ObjectMeta: meta("s"), Data: map[string][]byte{"k": []byte("v")}}},
		{"no object", "tombstone", "tombstone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Transform(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
