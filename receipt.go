package toolyard

// Receipt is the price of a call. Spent and Remaining are of the account or session that paid,
// as far as this replica has seen; they are nil if it has no figures.
type Receipt struct {
	Call      string `json:"call"`
	Price     Money  `json:"priceUsd"`            // charged; zero for a failed call
	ChargedTo string `json:"chargedTo,omitempty"` // ID of the account or session that paid
	Spent     *Money `json:"spentUsd,omitempty"`
	Remaining *Money `json:"remainingUsd,omitempty"`
	Replayed  bool   `json:"replayed,omitempty"` // the result of an earlier call, which paid for it
}
