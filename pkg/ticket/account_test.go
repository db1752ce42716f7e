package ticket

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windowsmachine/operator/pkg/apis/v1alpha1"
)

func TestAccountName(t *testing.T) {
	seen := map[string]string{}
	for _, in := range []struct {
		name string
		uid  types.UID
	}{
		{"win-a", "1"},
		{"win-a", "2"},
		{"win-b", "1"},
		{"a.b", "3"},
		{"a-b", "4"},
		{strings.Repeat("x", 253), "5"},
		{strings.Repeat("y", maxNamePart-1) + ".z", "6"},
		{"x", ""},
	} {
		got := AccountName(in.name, in.uid)
		if msgs := validation.IsDNS1123Label(got); len(msgs) > 0 {
			t.Errorf("%s: %v", got, msgs)
		}
		key := fmt.Sprint(in)
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s both get %s", key, other, got)
		}
		seen[got] = key
	}
}

func TestOrphans(t *testing.T) {
	sa := func(name, uid string, age time.Duration, bend func(*corev1.ServiceAccount)) corev1.ServiceAccount {
		a := corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: name, CreationTimestamp: metav1.NewTime(now().Add(-age)),
			Labels:      map[string]string{ManagedByLabel: ManagedBy},
			Annotations: map[string]string{v1alpha1.HostUIDAnnotation: uid},
		}}
		if bend != nil {
			bend(&a)
		}
		return a
	}
	accounts := []corev1.ServiceAccount{
		sa("alive", "1", time.Hour, nil),
		sa("gone", "2", time.Hour, nil),
		sa("young", "3", time.Minute, nil),
		sa("default", "", time.Hour, func(a *corev1.ServiceAccount) { a.Labels, a.Annotations = nil, nil }),
		sa("unannotated", "", time.Hour, nil),
		sa("unlabelled", "4", time.Hour, func(a *corev1.ServiceAccount) { a.Labels = nil }),
		sa("elsewhere", "5", time.Hour, func(a *corev1.ServiceAccount) { a.Namespace = "default" }),
	}
	hosts := []v1alpha1.WindowsHost{{ObjectMeta: metav1.ObjectMeta{UID: "1"}}}
	want := []string{"gone"}
	if diff := cmp.Diff(want, Orphans(accounts, hosts, now())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	var objects []client.Object
	for i := range accounts {
		objects = append(objects, &accounts[i])
	}
	got, err := Issuer{Client: newServer(t, objects...)}.Orphans(t.Context(), hosts, now())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listed: -want +got\n%s", diff)
	}
}

func TestSecretIsNeverShown(t *testing.T) {
	s := Secret("canary")
	type holder struct{ Kubeconfig Secret }
	shown := []string{}
	for _, f := range []string{"%s", "%v", "%+v", "%#v", "%q", "%x", "%X", "%d", "%c", "%t"} {
		shown = append(shown, fmt.Sprintf(f, s), fmt.Sprintf(f, holder{s}), fmt.Sprintf(f, []Secret{s}), fmt.Sprintf(f, &s))
	}
	b, err := json.Marshal(holder{s})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "a", s, "b", holder{s}, "c", Ticket{Kubeconfig: s})
	shown = append(shown, string(b), log.String(), fmt.Sprint(Ticket{Kubeconfig: s}), fmt.Sprint(s.MarshalLog()), s.String())
	for _, out := range shown {
		for _, leak := range []string{"canary", "63616e617279", "63616E617279", "99 97 110", "Y2FuYXJ5", "c, a, n"} {
			if strings.Contains(out, leak) {
				t.Errorf("shown: %s", out)
			}
		}
	}
	if string([]byte(s)) != "canary" {
		t.Error("the bytes do not come out at all")
	}
}

func TestRiskyBindings(t *testing.T) {
	bind := func(name, role string, subjects ...rbacv1.Subject) rbacv1.ClusterRoleBinding {
		return rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
	}
	group := func(n string) rbacv1.Subject { return rbacv1.Subject{Kind: "Group", Name: n} }
	user := func(n string) rbacv1.Subject { return rbacv1.Subject{Kind: "User", Name: n} }
	const boot = "system:node-bootstrapper"
	for _, tc := range []struct {
		name    string
		binding rbacv1.ClusterRoleBinding
		want    int
		word    string
	}{
		{"what kubeadm binds", bind("kubeadm:node-autoapprove-bootstrap", nodeClient, group("system:bootstrappers:kubeadm:default-node-token")), 1, "bootstrap token"},
		{"all bootstrappers", bind("b", nodeClient, group("system:bootstrappers")), 1, "bootstrap token"},
		{"our tickets", bind("b", nodeClient, group("system:serviceaccounts:windows-machine-bootstrap")), 1, "remove this binding"},
		{"one ticket", bind("b", nodeClient, rbacv1.Subject{Kind: "ServiceAccount", Namespace: Namespace, Name: "x"}), 1, "ticket"},
		{"all service accounts", bind("b", nodeClient, group("system:serviceaccounts")), 1, "ticket"},
		{"a service account", bind("b", nodeClient, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "openshift-machine-config-operator", Name: "node-bootstrapper"}), 1, "openshift-machine-config-operator/node-bootstrapper"},
		{"a service account as a user", bind("b", nodeClient, user("system:serviceaccount:a:b")), 1, "workload"},
		{"a bootstrap token as a user", bind("b", nodeClient, user("system:bootstrap:abcdef")), 1, "bootstrap token"},
		{"everybody", bind("b", nodeClient, group("system:authenticated")), 1, "everybody"},
		{"several", bind("b", nodeClient, group("system:authenticated"), group("system:bootstrappers"), user("jane")), 2, ""},
		{"a person", bind("b", nodeClient, user("jane")), 0, ""},
		{"nodes for themselves", bind("b", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", group("system:nodes")), 0, ""},
		{"our own binding", bind("windows-machine-bootstrap", boot, group("system:serviceaccounts:windows-machine-bootstrap")), 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := RiskyBindings([]rbacv1.ClusterRoleBinding{tc.binding})
			if len(got) != tc.want {
				t.Fatalf("got %q", got)
			}
			if tc.want > 0 && !strings.Contains(strings.Join(got, "\n"), tc.word) {
				t.Errorf("%q does not say %q", got, tc.word)
			}
		})
	}
}
