package ticket

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

const (
	// nodeClient lets the controller manager approve a client certificate for any node name that its subjects ask for
	// (kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping).
	nodeClient = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"

	accountGroup = "system:serviceaccounts"
)

// RiskyBindings reports bindings that let somebody who merely starts a machine, or any workload, become any node: the
// ClusterRole nodeclient bound to bootstrappers, to service accounts, or to everybody. Each answer is a sentence for an
// admin; the order is that of the names.
func RiskyBindings(bindings []rbacv1.ClusterRoleBinding) []string {
	var out []string
	for i := range bindings {
		b := &bindings[i]
		if b.RoleRef.Kind != "ClusterRole" || b.RoleRef.Name != nodeClient {
			continue
		}
		for _, s := range b.Subjects {
			if why := risk(s); why != "" {
				out = append(out, fmt.Sprintf("ClusterRoleBinding %s binds %s to %s %s: %s", b.Name, nodeClient, strings.ToLower(s.Kind), subjectName(s), why))
			}
		}
	}
	slices.Sort(out)
	return out
}

func subjectName(s rbacv1.Subject) string {
	if s.Kind == rbacv1.ServiceAccountKind {
		return s.Namespace + "/" + s.Name
	}
	return s.Name
}

func risk(s rbacv1.Subject) string {
	const (
		tickets = "a Windows machine's ticket could get a certificate of any node name, past the operator's rules; remove this binding"
		boot    = "whoever holds a bootstrap token can get a certificate of any node name"
		account = "a workload with this account can get a certificate of any node name"
		all     = "everybody can get a certificate of any node name; remove this binding"
	)
	switch {
	case s.Kind == rbacv1.ServiceAccountKind && s.Namespace == Namespace:
		return tickets
	case s.Kind == rbacv1.ServiceAccountKind:
		return account
	case s.Kind == rbacv1.UserKind:
		return userRisk(s.Name, tickets, boot, account)
	case s.Kind != rbacv1.GroupKind:
		return ""
	}
	switch {
	case s.Name == "system:authenticated", s.Name == "system:unauthenticated":
		return all
	case s.Name == accountGroup, s.Name == accountGroup+":"+Namespace:
		return tickets
	case strings.HasPrefix(s.Name, accountGroup+":"):
		return account
	case s.Name == "system:bootstrappers", strings.HasPrefix(s.Name, "system:bootstrappers:"):
		return boot
	default:
		return ""
	}
}

func userRisk(name, tickets, boot, account string) string {
	switch {
	case strings.HasPrefix(name, "system:serviceaccount:"+Namespace+":"):
		return tickets
	case strings.HasPrefix(name, "system:serviceaccount:"):
		return account
	case strings.HasPrefix(name, "system:bootstrap:"):
		return boot
	case name == "system:anonymous":
		return boot
	default:
		return ""
	}
}
