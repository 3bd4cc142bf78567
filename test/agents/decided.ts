/** An answer of the synthesis that fits its schema. */
export const decided = {
  agent_name: 'Committee',
  loan_type: 'personal_loan',
  approval_decision: 'approve',
  approval_type: 'STANDARD_TERMS',
  interest_rate: 9,
  confidence_probability: 70,
  confidence_level: 'medium',
  agent_influence: {
    risk_manager_weight: 0.25,
    regulatory_weight: 0.25,
    data_science_weight: 0.25,
    consumer_advocate_weight: 0.25,
    primary_influence: 'regulatory',
  },
  reasoning: { synthesis_rationale: 'a', weight_justification: 'b', risk_assessment: 'c' },
};
