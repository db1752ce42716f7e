package api

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windowsmachine/operator/pkg/facts"
	"github.com/windowsmachine/operator/pkg/facts/discover"
	"github.com/windowsmachine/operator/pkg/ticket"
	"github.com/windowsmachine/operator/test/golden"
)

// right is a question about the operator's account, written "verb resource.group/subresource [name]" and a namespace.
type right struct {
	what, namespace string
	// why is the code that needs it, or what would follow from it.
	why string
}

func (r right) attributes() *authorizationv1.ResourceAttributes {
	f := append(strings.Fields(r.what), "")
	resource, sub, _ := strings.Cut(f[1], "/")
	resource, group, _ := strings.Cut(resource, ".")
	return &authorizationv1.ResourceAttributes{
		Namespace: r.namespace, Verb: f[0], Group: group, Version: "*", Resource: resource, Subresource: sub, Name: f[2],
	}
}

func (r right) allowed(t *testing.T, c client.Client) bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: r.attributes()}}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// TestW69OperatorRights asks the API server as the operator's own account. The operator makes no roles and no bindings, so that it can
// never be refused for granting what it lacks: all are part of config, and what it may do is what the code does.
func TestW69OperatorRights(t *testing.T) {
	operator, _ := as(t, namespace, account)
	const boot, elsewhere = "windows-machine-bootstrap", machineNamespace
	for _, r := range []right{
		{"list windowshosts.windowsmachine.dev", "", "host: watches hosts everywhere"},
		{"watch windowshosts.windowsmachine.dev", "", "host"},
		{"get windowshosts.windowsmachine.dev", elsewhere, "host"},
		{"patch windowshosts.windowsmachine.dev/status", elsewhere, "host: NotAllowed on hosts elsewhere"},
		{"create windowshosts.windowsmachine.dev", namespace, "machine"},
		{"update windowshosts.windowsmachine.dev", namespace, "machine; host: adds the finalizer"},
		{"patch windowshosts.windowsmachine.dev", namespace, "host: removes the finalizer"},
		{"delete windowshosts.windowsmachine.dev", namespace, "machine"},
		{"patch windowshosts.windowsmachine.dev/status", namespace, "host, machine, csr"},
		{"create windowsnodeprofiles.windowsmachine.dev", "", "profile: makes default"},
		{"watch windowsnodeprofiles.windowsmachine.dev", "", "profile"},
		{"patch windowsnodeprofiles.windowsmachine.dev/status", "", "profile"},
		{"watch machines.machine.openshift.io", elsewhere, "machine"},
		{"watch nodes", "", "host, machine, csr"},
		{"patch nodes", "", "host: labels and the host's UID; podcidr: spec.podCIDR where the profile says so"},
		{"list pods", "", "podcidr: addresses of running pods"},
		{"list events", "default", "podcidr: CIDRNotAvailable and CIDRAssignmentFailed on Nodes"},
		{"get leases.coordination.k8s.io kube-controller-manager", "kube-system", "podcidr: a sign of life"},
		{"delete nodes", "", "host: a deleted host's Node"},
		{"watch secrets", namespace, "host: private keys; profile: ignition"},
		{"get secrets", namespace, "discover: ignition"},
		{"watch configmaps", namespace, "profile: ignition"},
		{"get configmaps kubeadm-config", "kube-system", "discover"},
		{"get configmaps kubelet-config", "kube-system", "discover"},
		{"get configmaps kube-proxy", "kube-system", "discover"},
		{"get configmaps coredns", "kube-system", "discover"},
		{"get configmaps extension-apiserver-authentication", "kube-system", "discover"},
		{"get configmaps kube-root-ca.crt", "kube-system", "discover"},
		{"get configmaps cilium-config", "kube-system", "discover: the pod network"},
		{"get configmaps kube-router-cfg", "kube-system", "discover: the pod network"},
		{"get configmaps kube-flannel-cfg", "kube-flannel", "discover: the pod network"},
		{"list ippools.crd.projectcalico.org", "", "discover: the pod network"},
		{"get felixconfigurations.crd.projectcalico.org default", "", "discover: the pod network"},
		{"get installations.operator.tigera.io default", "", "discover: the pod network"},
		{"list pods", "kube-system", "discover: arguments of mirror pods"},
		{"get configmaps cluster-info", "kube-public", "discover"},
		{"get services kubernetes", "default", "discover"},
		{"list services", "", "discover, csr: addresses that no node may claim"},
		{"list endpointslices.discovery.k8s.io", "default", "discover, csr"},
		{"list servicecidrs.networking.k8s.io", "", "discover, csr"},
		{"get infrastructures.config.openshift.io cluster", "", "discover"},
		{"get networks.config.openshift.io cluster", "", "discover"},
		{"get controllerconfigs.machineconfiguration.openshift.io machine-config-controller", "", "discover"},
		{"get machineconfigpools.machineconfiguration.openshift.io worker", "", "discover"},
		{"get machineconfigs.machineconfiguration.openshift.io rendered-worker", "", "discover"},
		{"list clusterrolebindings.rbac.authorization.k8s.io", "", "profile: risky bindings"},
		{"create serviceaccounts", boot, "ticket"},
		{"get serviceaccounts", boot, "ticket"},
		{"list serviceaccounts", boot, "ticket: orphans"},
		{"delete serviceaccounts", boot, "ticket"},
		{"create serviceaccounts/token", boot, "ticket"},
		{"watch certificatesigningrequests.certificates.k8s.io", "", "csr"},
		{"update certificatesigningrequests.certificates.k8s.io/approval", "", "csr"},
		{"approve signers.certificates.k8s.io kubernetes.io/kube-apiserver-client-kubelet", "", "csr"},
		{"approve signers.certificates.k8s.io kubernetes.io/kubelet-serving", "", "csr"},
		{"get leases.coordination.k8s.io win-1", "kube-node-lease", "csr: signs of life"},
		{"create leases.coordination.k8s.io", namespace, "leader election"},
		{"update leases.coordination.k8s.io windows-machine-operator", namespace, "leader election"},
		{"create events.events.k8s.io", elsewhere, "events on Machines and hosts"},
		{"patch events.events.k8s.io", "default", "events on requests and profiles"},
		{"create events", namespace, "leader election"},
	} {
		if !r.allowed(t, operator) {
			t.Errorf("may not %s in %q, which it needs: %s", r.what, r.namespace, r.why)
		}
	}
	for _, r := range []right{
		{"get secrets", "kube-system", "reads the cluster's secrets"},
		{"list secrets", "", "reads all secrets"},
		{"list secrets", elsewhere, "reads clouds' credentials"},
		{"get secrets", boot, "reads tickets"},
		{"create secrets", namespace, "makes itself tokens"},
		{"update secrets", namespace, "changes an admin's keys"},
		{"get configmaps kubeadm-config", elsewhere, "reads ConfigMaps of others"},
		{"get configmaps another", "kube-system", "reads ConfigMaps that it does not need"},
		{"list configmaps", "kube-system", "reads ConfigMaps that it does not need"},
		{"update configmaps", namespace, "changes an admin's input"},
		{"create services", namespace, "takes others' traffic by externalIPs"},
		{"watch pods", "", "holds all pods in memory"},
		{"list events", elsewhere, "reads what others say"},
		{"get leases.coordination.k8s.io kube-scheduler", "kube-system", "reads leases that it does not need"},
		{"update leases.coordination.k8s.io kube-controller-manager", "kube-system", "stops the controller manager"},
		{"create pods", namespace, "runs code as any account of its namespace"},
		{"create pods", "kube-system", "runs code as any account"},
		{"create pods/exec", namespace, "runs code in pods"},
		{"create deployments.apps", namespace, "runs code"},
		{"create daemonsets.apps", "kube-system", "runs code on every node"},
		{"get nodes/proxy", "", "runs code on every node through the kubelet"},
		{"patch nodes/status", "", "forges a node's state"},
		{"update nodes", "", "writes fields of others"},
		{"create nodes", "", "makes nodes"},
		{"create clusterrolebindings.rbac.authorization.k8s.io", "", "grants itself rights"},
		{"create roles.rbac.authorization.k8s.io", namespace, "grants itself rights"},
		{"create rolebindings.rbac.authorization.k8s.io", boot, "grants tickets rights"},
		{"bind clusterroles.rbac.authorization.k8s.io cluster-admin", "", "grants itself rights"},
		{"escalate clusterroles.rbac.authorization.k8s.io", "", "grants itself rights"},
		{"impersonate users", "", "acts as anybody"},
		{"impersonate serviceaccounts", "", "acts as any account"},
		{"create serviceaccounts", "kube-system", "makes accounts elsewhere"},
		{"create serviceaccounts/token", namespace, "prolongs its own token"},
		{"create serviceaccounts/token", "kube-system", "acts as the controllers"},
		{"delete serviceaccounts", namespace, "deletes itself"},
		{"update serviceaccounts", boot, "changes tickets"},
		{"approve signers.certificates.k8s.io kubernetes.io/kube-apiserver-client", "", "makes certificates of any user"},
		{"approve signers.certificates.k8s.io kubernetes.io/legacy-unknown", "", "makes certificates of unknown use"},
		{"approve signers.certificates.k8s.io example.com/any", "", "makes certificates of other signers"},
		{"sign signers.certificates.k8s.io kubernetes.io/kubelet-serving", "", "signs by itself"},
		{"create certificatesigningrequests.certificates.k8s.io", "", "asks for certificates"},
		{"update certificatesigningrequests.certificates.k8s.io/status", "", "writes certificates"},
		{"delete certificatesigningrequests.certificates.k8s.io", "", "hides what was asked"},
		{"update leases.coordination.k8s.io win-1", "kube-node-lease", "forges signs of life"},
		{"update leases.coordination.k8s.io another", namespace, "takes another's lead"},
		{"create windowshosts.windowsmachine.dev", elsewhere, "makes hosts elsewhere"},
		{"update windowshosts.windowsmachine.dev", elsewhere, "changes hosts elsewhere"},
		{"delete windowshosts.windowsmachine.dev", elsewhere, "deletes hosts elsewhere"},
		{"update windowsnodeprofiles.windowsmachine.dev", "", "changes an admin's settings"},
		{"delete windowsnodeprofiles.windowsmachine.dev", "", "deletes an admin's settings"},
		{"delete machines.machine.openshift.io", elsewhere, "deletes machines"},
		{"patch machines.machine.openshift.io", elsewhere, "changes machines"},
		{"list events.events.k8s.io", "", "reads events"},
		{"create validatingwebhookconfigurations.admissionregistration.k8s.io", "", "stands between the API server and everybody"},
		{"update customresourcedefinitions.apiextensions.k8s.io", "", "changes the API"},
		{"list endpointslices.discovery.k8s.io", "kube-system", "sees where others' Services are"},
		{"get clusterrolebindings.rbac.authorization.k8s.io", "", "is not needed"},
		{"watch serviceaccounts", boot, "is not needed"},
	} {
		if r.allowed(t, operator) {
			t.Errorf("may %s in %q: it %s", r.what, r.namespace, r.why)
		}
	}
}

// TestW69RightsAreTheseAndNoOthers compares every right that the API server's authorizer knows of the operator's account, namespace by
// namespace and less what any account has, with a file that people read. go test ./test/integration/api -run W69 -update writes it.
func TestW69RightsAreTheseAndNoOthers(t *testing.T) {
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: "nobody"}})
	operator, _ := as(t, namespace, account)
	nobody, _ := as(t, machineNamespace, "nobody")
	everywhere := rules(t, operator, machineNamespace)
	subtract(everywhere, rules(t, nobody, machineNamespace))
	var b strings.Builder
	b.WriteString("# What the operator's account may do, beyond what any account may.\n\neverywhere\n" + lines(everywhere))
	var all corev1.NamespaceList
	if err := admin.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		own := rules(t, operator, all.Items[i].Name)
		subtract(own, rules(t, nobody, all.Items[i].Name))
		subtract(own, everywhere)
		if len(own) > 0 {
			fmt.Fprintf(&b, "\nnamespace %s\n%s", all.Items[i].Name, lines(own))
		}
	}
	golden.Equal(t, "testdata/rights.golden", []byte(b.String()))
	if strings.Contains(b.String(), "*") {
		t.Error("a right has a wildcard")
	}
}

// rules are the rights in a namespace: resource and name → verbs.
func rules(t *testing.T, c client.Client, namespace string) map[string][]string {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := c.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if review.Status.Incomplete {
		t.Fatalf("the authorizer does not tell all: %s", review.Status.EvaluationError)
	}
	out := map[string][]string{}
	for _, r := range review.Status.ResourceRules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				key := strings.TrimSuffix(group+"/"+resource, "/")
				names := r.ResourceNames
				if len(names) == 0 {
					names = []string{""}
				}
				for _, name := range names {
					k := strings.TrimSpace(key + " " + name)
					out[k] = append(out[k], r.Verbs...)
				}
			}
		}
	}
	for _, r := range review.Status.NonResourceRules {
		for _, url := range r.NonResourceURLs {
			out["url "+url] = append(out["url "+url], r.Verbs...)
		}
	}
	return out
}

// subtract takes from all the rights that less has.
func subtract(all, less map[string][]string) {
	for k := range all {
		all[k] = slices.DeleteFunc(all[k], func(v string) bool { return slices.Contains(less[k], v) })
		if len(all[k]) == 0 {
			delete(all, k)
		}
	}
}

func lines(m map[string][]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		verbs := slices.Compact(slices.Sorted(slices.Values(m[k])))
		fmt.Fprintf(&b, "  %s: %s\n", strings.TrimPrefix(k, "/"), strings.Join(verbs, " "))
	}
	return b.String()
}

// The roles as they are written, those of tickets too: no wildcard in any of them, and none that is not bound.
func TestW69NoWildcards(t *testing.T) {
	files, err := filepath.Glob(root + "config/rbac/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles, bound := map[string]int{}, map[string]bool{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(b), "\n---") {
			var o struct {
				Kind     string
				Metadata metav1.ObjectMeta
				Rules    []rbacv1.PolicyRule
				RoleRef  rbacv1.RoleRef
				Subjects []rbacv1.Subject
			}
			if err := yaml.Unmarshal([]byte(strings.TrimPrefix(doc, "---")), &o); err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			switch o.Kind {
			case "Role", "ClusterRole":
				roles[o.Kind+" "+o.Metadata.Namespace] = len(o.Rules)
				for _, r := range o.Rules {
					if words := slices.Concat(r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs); slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "*") }) {
						t.Errorf("%s: %s %s has a wildcard: %+v", f, o.Kind, o.Metadata.Namespace, r)
					}
				}
			case "RoleBinding", "ClusterRoleBinding":
				bound[o.RoleRef.Kind+" "+o.Metadata.Namespace] = true
				for _, s := range o.Subjects {
					if s.Name != account && s.Name != "windows-kube-proxy" && s.Name != "system:serviceaccounts:windows-machine-bootstrap" {
						t.Errorf("%s: %s binds %s %s", f, o.Metadata.Name, s.Kind, s.Name)
					}
				}
			}
		}
	}
	for k, n := range roles {
		if n == 0 || !bound[k] {
			t.Errorf("%s has %d rules, bound: %t", k, n, bound[k])
		}
	}
	if len(roles) < 6 {
		t.Errorf("%d roles only", len(roles))
	}
}

// Rights on paper are one thing; here the code itself works with them.
func TestW69CodeWorksWithTheOperatorsRights(t *testing.T) {
	operator, cfg := as(t, namespace, account)
	t.Run("discovery reads everything", func(t *testing.T) {
		_, problems, err := discover.Cluster(t.Context(), operator, discover.Input{ProfileName: "default", Namespace: namespace, OwnAPIServer: cfg.Host, OwnCA: cp.CA()})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if strings.Contains(p.Message, "may not") {
				t.Errorf("%s: %s", p.Reason, p.Message)
			}
		}
	})
	t.Run("without them it names the verbs", func(t *testing.T) {
		create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: machineNamespace, Name: "powerless"}})
		powerless, cfg := as(t, machineNamespace, "powerless")
		_, problems, err := discover.Cluster(t.Context(), powerless, discover.Input{ProfileName: "default", Namespace: namespace, OwnAPIServer: cfg.Host, OwnCA: cp.CA()})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(problems, func(p facts.Problem) bool { return p.Reason == "FactsForbidden" })
		if i < 0 {
			t.Fatalf("problems %+v", problems)
		}
		for _, want := range []string{"get configmaps kube-system/kubeadm-config", "list servicecidrs.networking.k8s.io"} {
			if !strings.Contains(problems[i].Message, want) {
				t.Errorf("%q does not name %q", problems[i].Message, want)
			}
		}
	})
	t.Run("tickets", func(t *testing.T) {
		h := aHost()
		create(t, h)
		issuer := ticket.Issuer{Client: operator}
		cluster := facts.Cluster{APIServer: cp.URL(), APIServerCA: cp.CA()}
		first, err := issuer.Issue(t.Context(), h, cluster)
		if err != nil {
			t.Fatal(err)
		}
		h.Status.Ticket = first.Status(nil)
		h.Status.Ticket.ApprovedCSR = "csr-1"
		second, err := issuer.Issue(t.Context(), h, cluster)
		if err != nil || second.ID == first.ID {
			t.Errorf("a used ticket was not replaced: %v", err)
		}
		orphans, err := issuer.Orphans(t.Context(), nil, time.Now().Add(time.Hour))
		if err != nil || !slices.Contains(orphans, second.ServiceAccount) {
			t.Errorf("orphans %v, %v", orphans, err)
		}
		if err := issuer.Revoke(context.WithoutCancel(t.Context()), h); err != nil {
			t.Error(err)
		}
	})
}
