package ticket

// What Issuer needs, for controller-gen: accounts and their tokens, in the bootstrap namespace only.
//
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create;delete;get;list;watch,namespace=windows-machine-bootstrap
// +kubebuilder:rbac:groups="",resources=serviceaccounts/token,verbs=create,namespace=windows-machine-bootstrap
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterrolebindings,verbs=get;list;watch
