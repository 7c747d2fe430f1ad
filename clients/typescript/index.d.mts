// Written by scripts/write-typescript-client from the service's OpenAPI document. Do not edit.

export interface DecideRequest { user: string | number; context?: string | number; attributes?: Record<string, string | number | boolean | null> | null; idempotency_key?: string; is_deferred?: boolean | null; action?: string | number | null; propensity?: number | null; actions?: (string | number)[] | null; top?: number | null }

export interface DecideBatch { decisions: (DecideRequest)[] }

export interface ActivateRequest { token: string }

export interface RewardRequest { token: string; reward: number; reward_id?: string }

export interface RewardBatch { rewards: (RewardRequest)[] }

export interface NewCampaign { name: string; settings: Settings }

export interface Settings { actions: (string)[]; contexts?: (string)[]; features?: Record<string, FeatureSettings>; alpha?: number | "auto"; method?: string; mode?: "learn" | "serve" | "shadow"; explore_share?: number; control_share?: number; baseline?: string; reward_window?: number; default_reward?: number; aggregation?: "first" | "max" | "sum"; is_deferred?: boolean; lowest_reward?: number; highest_reward?: number; max_interactions_per_user?: number | null; activate_learned?: boolean; learn_every?: number; retention?: number; target?: number; daily_report?: boolean; webhook?: string; webhook_share?: number }

export interface FeatureSettings { type?: "category" | "number"; levels?: (string)[]; bins?: (number)[]; trusted?: boolean }

export interface NewGlobalKey { role: "admin" | "decide" | "reward"; campaign?: string }

export interface NewKey { role: "admin" | "decide" | "reward" }

export interface NewLabels { labels: (string)[] }

export interface DecideResponse { id: string; action: string; propensity: number; mode: string; plan: number; token: string; ranked?: (string)[]; leaf?: string | null; is_known?: boolean }

export interface ActivateResponse { id: string; received_ms: number }

export interface RewardResponse { id: string; reward: number; reward_id: string; received_ms: number }

export interface Error { error: { code: string; message: string } }

export interface Operations {
  decide: { body: DecideRequest; returns: DecideResponse };
  decide_batch: { body: DecideBatch; returns: Record<string, unknown> };
  activate: { body: ActivateRequest; returns: ActivateResponse };
  shown: { body: undefined; returns: string };
  reward: { body: RewardRequest; returns: RewardResponse };
  reward_batch: { body: RewardBatch; returns: Record<string, unknown> };
  index: { body: undefined; returns: Record<string, unknown> };
  healthz: { body: undefined; returns: Record<string, unknown> };
  readyz: { body: undefined; returns: Record<string, unknown> };
  openapi: { body: undefined; returns: Record<string, unknown> };
  metrics: { body: undefined; returns: string };
  list_campaigns_of_all: { body: undefined; returns: Record<string, unknown> };
  create_campaign_of_all: { body: NewCampaign; returns: Record<string, unknown> };
  list_keys_of_all: { body: undefined; returns: Record<string, unknown> };
  make_key_of_all: { body: NewGlobalKey; returns: Record<string, unknown> };
  list_keys: { body: undefined; returns: Record<string, unknown> };
  make_key: { body: NewKey; returns: Record<string, unknown> };
  remove_key_of_all: { body: undefined; returns: Record<string, unknown> };
  remove_key: { body: undefined; returns: Record<string, unknown> };
  list_signing_keys_of_all: { body: undefined; returns: Record<string, unknown> };
  rotate_signing_key_of_all: { body: undefined; returns: Record<string, unknown> };
  retire_signing_key_of_all: { body: undefined; returns: Record<string, unknown> };
  show_campaign: { body: undefined; returns: Record<string, unknown> };
  change_campaign: { body: Record<string, unknown>; returns: Record<string, unknown> };
  delete_campaign: { body: undefined; returns: Record<string, unknown> };
  archive_campaign: { body: undefined; returns: Record<string, unknown> };
  restore_campaign: { body: undefined; returns: Record<string, unknown> };
  add_contexts: { body: NewLabels; returns: Record<string, unknown> };
  add_actions: { body: NewLabels; returns: Record<string, unknown> };
  show_policy: { body: undefined; returns: Record<string, unknown> };
  list_policies: { body: undefined; returns: Record<string, unknown> };
  show_version: { body: undefined; returns: Record<string, unknown> };
  activate_version: { body: undefined; returns: Record<string, unknown> };
  learn: { body: undefined; returns: Record<string, unknown> };
  list_jobs: { body: undefined; returns: Record<string, unknown> };
  show_job: { body: undefined; returns: Record<string, unknown> };
  status: { body: undefined; returns: Record<string, unknown> };
  report: { body: undefined; returns: Record<string, unknown> };
  list_reports: { body: undefined; returns: Record<string, unknown> };
  show_report: { body: undefined; returns: Record<string, unknown> };
  audit: { body: undefined; returns: Record<string, unknown> };
  export: { body: undefined; returns: string };
  list_decisions: { body: undefined; returns: Record<string, unknown> };
  forget_user: { body: undefined; returns: Record<string, unknown> };
  explain_decision: { body: undefined; returns: Record<string, unknown> };
}

export class ServiceError extends Error {
  constructor(status: number, code: string, message: string);
  readonly status: number;
  readonly code: string;
}

export interface Options {
  key?: string;
  tries?: number;
  fetch?: typeof globalThis.fetch;
}

export class Client {
  constructor(address: string, campaign: string, options?: Options);
  call<Name extends keyof Operations>(
    operation: Name,
    request?: { path?: Record<string, string>; query?: Record<string, string>; body?: Operations[Name]["body"] },
  ): Promise<Operations[Name]["returns"]>;
  decide(
    user: string | number,
    context: string | number | Record<string, string | number | boolean | null>,
    more?: Omit<Partial<DecideRequest>, "user" | "context" | "attributes">,
  ): Promise<DecideResponse>;
  reward(token: string, reward: number, more?: { reward_id?: string }): Promise<RewardResponse>;
  activate(token: string): Promise<ActivateResponse>;
  pixel(token: string): string;
}
